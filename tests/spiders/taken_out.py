"""Protections of a shared crawl that are taken out, in a worker, for controls."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bloomdupe.crawl.engines.on_redis.worker import Worker
from bloomdupe.redis import open_frontier
from bloomdupe.redis import server as scripts
from bloomdupe.redis.kept_offers import KeptOffers
from bloomdupe.redis.partition import SeenMark

STRANGE = "return {'strange'}"

FENCE = {
    "owner": {
        "then return {'lost'} end": "then end",
        "owner[3] == ARGV[3]": "false",
    },
    "renew": {"or owner[2] ~= ARGV[2] then return -1 end": "then end"},
    "settle": {STRANGE: ""},
}
"""The guards in each script by which a worker loses a partition with its lease, and the
text in their place.
"""

ONCE = {"if not done_before then": "if true then", STRANGE: ""}

SETTLING = {"settle": ONCE}
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


def memory(place: str) -> None:
    """Offer nothing again to a Redis that goes back at the first page with new links.

    The file at that place tells how far it is. The first worker writes ``before`` into
    it, offers the links when the file says ``offer``, writes ``offered``, and settles
    the page when the file says ``gone``.
    """
    offers()
    say, step = Worker._offer_and_settle, Path(place)

    def wait_for(word: str) -> None:
        while step.read_text() != word:
            time.sleep(0.01)

    def slowly(worker: Worker, offers: list[Any], done: list[Any]) -> None:
        links = [
            SeenMark(offer.slot, offer.fingerprint)
            for offer in offers
            if offer.of is not None
        ]
        # A link to a page that is known already would not be lost.
        if step.exists() or all(worker._frontier.knows(links)):
            say(worker, offers, done)
            return
        step.write_text("before")
        wait_for("offer")
        say(worker, offers, [])
        step.write_text("offered")
        wait_for("gone")
        say(worker, [], done)

    Worker._offer_and_settle = slowly  # type: ignore[assignment,method-assign]


def order(place: str) -> None:
    """Settle a page before its requests are offered; then the first worker dies.

    A file at that place tells the next worker that it is not the first.
    """
    say, killed = Worker._offer_and_settle, Path(place)
    parents: set[tuple[int, str, bytes]] = set()

    def settle_first(worker: Worker, offers: list[Any], done: list[Any]) -> None:
        if killed.exists():
            say(worker, offers, done)
            return
        # No link is offered at all: the first page that is done has lost its own.
        parents.update(offer.of.token for offer in offers if offer.of is not None)
        say(worker, [offer for offer in offers if offer.of is None], done)
        if any(one.lease.token in parents for one in done):
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    Worker._offer_and_settle = settle_first  # type: ignore[assignment,method-assign]
