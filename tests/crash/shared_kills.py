"""F21: workers on Redis: killed, stopped for too long; Redis back at older data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from child import each_caught
from support.owners_model import trial as crawled
from support.redis_server import RedisServer
from support.taken_out import FENCE, INBOX, STEP, script_without
from trial import OK, Fault, Outcome, crashed, outcome_of

from bloomdupe.store.redis import owner

CRAWLS = 15
"""Crawls of a case."""
CONTROL_CRAWLS = 40
KINDS = {"killed", "stopped", "back", "refused", "repeated", "taken", "given"}
"""Faults, each of which some crawl of a case must have had."""


class SharedKills(Fault):
    """Crawls of several workers, each disturbed again and again; it runs to its end."""

    number = "F21"
    name = (
        "workers on Redis killed, or stopped longer than their leases; Redis back at"
        " older data"
    )
    cases = 13
    needs = "redis-server"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        happened: set[str] = set()
        with RedisServer(folder / "redis") as server:
            first = seed * CRAWLS
            found = [_judged(server, first + n, happened) for n in range(CRAWLS)]
        if lacking := KINDS - happened:
            found.append(crashed(f"{seed}: never {lacking}"))
        return found

    def control(self, folder: Path) -> list[Outcome]:
        """No fence, no step, no digest of the inbox."""

        def without(*checks: str) -> Callable[[Path], list[Outcome]]:
            def control(place: Path) -> list[Outcome]:
                owner.COMMIT = script_without(*checks)
                with RedisServer(place / "redis") as server:
                    tried = (
                        _judged(server, seed, set()) for seed in range(CONTROL_CRAWLS)
                    )
                    return [next((one for one in tried if one != OK), OK)]

            return control

        return each_caught(folder, without(*FENCE), without(*STEP), without(*INBOX))


def _judged(server: RedisServer, seed: int, happened: set[str]) -> Outcome:
    try:
        outcome = outcome_of(crawled(server, seed, happened))
    except Exception as error:  # noqa: BLE001 - it meets what cannot be
        outcome = crashed(repr(error))
    return outcome.at(f"{seed}")
