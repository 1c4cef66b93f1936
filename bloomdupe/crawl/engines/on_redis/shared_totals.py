"""Shared totals: the totals of a crawl, as the partitions on Redis keep them.

``all``        ``pages``, ``bytes``, ``items`` and ``duplicates``; ``status 200`` and
               ``depth 1``, pages by status and depth
``slot NAME``  ``pages`` and ``bytes`` of a slot
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.totals import Totals
from bloomdupe.redis.settled.tally import sum_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bloomdupe.redis.partition import Settled
    from bloomdupe.redis.settled.tally import Numbers

__all__ = ["counts_of", "totals_of", "with_duplicates"]

ALL, SLOT, STATUS, DEPTH = "all", "slot ", "status ", "depth "
NUMBERS = ("pages", "bytes", "items", "duplicates")


def counts_of(totals: Totals) -> Numbers:
    """Return totals as counts; those that are 0 are left out."""
    of_all = {name: getattr(totals, name) for name in NUMBERS}
    of_all |= {STATUS + name: pages for name, pages in totals.statuses.items()}
    of_all |= {DEPTH + name: pages for name, pages in totals.depths.items()}
    counts = {ALL: {name: number for name, number in of_all.items() if number}}
    for slot, (pages, size) in totals.by_slot.items():
        counts[SLOT + slot] = {"pages": pages, "bytes": size}
    return {group: numbers for group, numbers in counts.items() if numbers}


def totals_of(some: Iterable[Numbers]) -> Totals:
    """Return the totals of several partitions."""
    counts = sum_of(some)
    of_all = counts.pop(ALL, {})
    return Totals(
        **{name: of_all.get(name, 0) for name in NUMBERS},
        statuses=_named(of_all, STATUS),
        depths=_named(of_all, DEPTH),
        by_slot={
            group.removeprefix(SLOT): [numbers["pages"], numbers["bytes"]]
            for group, numbers in counts.items()
        },
    )


def with_duplicates(done: Settled, duplicates: int) -> Settled:
    """Let duplicates count with a request that is done."""
    more = {ALL: {"duplicates": duplicates}}
    return done._replace(counts=sum_of([done.counts, more]))


def _named(of_all: dict[str, int], prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): number
        for name, number in of_all.items()
        if name.startswith(prefix)
    }
