"""Protections of a shared crawl that are taken out, in a worker, for controls."""

from __future__ import annotations

import time
from typing import Any

from bloomdupe.crawl.engines.on_redis.worker import Worker
from bloomdupe.redis import server as scripts
from bloomdupe.redis import shared_frontier
from bloomdupe.redis.kept_offers import KeptOffers

SOON, LATE = 0.05, 0.3
"""Seconds, which must not cost a lease."""


def fence() -> None:
    """Let whoever believes to be the owner of a partition do what only that may do."""
    read = scripts._source

    def unfenced(name: str) -> str:
        text = read(name)
        text = text.replace("then return {'lost'} end", "then end")
        text = text.replace("or owner[2] ~= ARGV[2] then return 0 end", "then end")
        text = text.replace("return {'strange'}", "")
        return text.replace("owner[3] == ARGV[3]", "false")

    scripts._source = unfenced


def offers() -> None:
    """Offer nothing again to a Redis that has gone back."""

    class Forgetful(KeptOffers):
        def keep(self, offers: object) -> None:
            """Forget them."""

    shared_frontier.KeptOffers = Forgetful  # type: ignore[attr-defined]


def memory() -> None:
    """Offer nothing again, where pages are settled long after their links."""
    offers()
    say = Worker._say

    def slowly(worker: Worker, offers: list[Any], done: list[Any]) -> None:
        say(worker, offers, [])
        if offers:
            time.sleep(2 * SOON)
        say(worker, [], done)

    Worker._say = slowly  # type: ignore[assignment,method-assign]


def order() -> None:
    """Settle pages before what they lead to is offered."""
    say = Worker._say

    def settle_first(worker: Worker, offers: list[Any], done: list[Any]) -> None:
        if offers:
            time.sleep(SOON)  # by then the pages that have yielded them are done
            with worker._changed:
                done, worker._done = done + worker._done, []
        say(worker, [], done)
        if offers:
            time.sleep(LATE)
            say(worker, offers, [])

    Worker._say = settle_first  # type: ignore[assignment,method-assign]
