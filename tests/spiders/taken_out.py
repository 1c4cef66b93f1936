"""Protections of a shared crawl that are taken out, in a worker, for controls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.on_redis.worker import Worker
from bloomdupe.redis import open_frontier
from bloomdupe.redis import server as scripts
from bloomdupe.redis.kept_offers import KeptOffers

if TYPE_CHECKING:
    from collections.abc import Mapping

SOON, LATE = 0.05, 0.3
"""Seconds, which must not cost a lease."""


STRANGE = "return {'strange'}"

FENCE = {
    "owner": {
        "then return {'lost'} end": "then end",
        "owner[3] == ARGV[3]": "false",
    },
    "renew": {"or owner[2] ~= ARGV[2] then return -1 end": "then end"},
    "settle": {STRANGE: ""},
    "leave": {STRANGE: ""},
}
"""The guards in each script by which a worker loses a partition with its lease, and the
text in their place.
"""

ONCE = {"if not done_before then": "if true then", STRANGE: ""}

SETTLING = {"settle": ONCE, "leave": ONCE}
"""Those by which a settlement counts once, apart from ``owner.lua``."""


def fence() -> None:
    """Let a worker act as the owner of a partition after it has lost its lease."""
    change(FENCE)


def settling() -> None:
    """Let a worker settle any request that it was ever handed out, at any time."""
    parts = scripts.SCRIPTS["settle"]
    scripts.SCRIPTS["settle"] = tuple(part for part in parts if part != "owner")
    change(SETTLING)


def change(guards: Mapping[str, Mapping[str, str]]) -> None:
    """Replace guards in the scripts that this process has not read yet."""
    read = scripts._source

    def changed(name: str) -> str:
        text = read(name)
        for guard, instead in guards.get(name, {}).items():
            text = text.replace(guard, instead)
        return text

    scripts._source = changed


def offers() -> None:
    """Offer nothing again to a Redis that has gone back."""

    class Forgetful(KeptOffers):
        def keep(self, offers: object) -> None:
            """Forget them."""

    open_frontier.KeptOffers = Forgetful  # type: ignore[attr-defined]


def memory() -> None:
    """Offer nothing again, where pages are settled long after their links."""
    offers()
    say = Worker._offer_and_settle

    def slowly(worker: Worker, offers: list[Any], done: list[Any]) -> None:
        say(worker, offers, [])
        if offers:
            time.sleep(2 * SOON)
        say(worker, [], done)

    Worker._offer_and_settle = slowly  # type: ignore[assignment,method-assign]


def order() -> None:
    """Settle pages before their requests are offered."""
    say = Worker._offer_and_settle

    def settle_first(worker: Worker, offers: list[Any], done: list[Any]) -> None:
        if offers:
            time.sleep(SOON)  # by then the pages that have yielded them are done
            with worker._changed:
                done, worker._done = done + worker._done, []
        say(worker, [], done)
        if offers:
            time.sleep(LATE)
            say(worker, offers, [])

    Worker._offer_and_settle = settle_first  # type: ignore[assignment,method-assign]
