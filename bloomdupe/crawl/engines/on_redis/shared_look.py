"""SharedLook: the state of a crawl, which its workers look at in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]

from bloomdupe.crawl.engines.on_redis.shared_totals import totals_of
from bloomdupe.crawl.progress.history import TIERS, Point, surplus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.redis.frontier_reader import PartitionState
    from bloomdupe.redis.shared_frontier import SharedFrontier, Turn

__all__ = ["SharedLook", "unpacked"]

EVERY = TIERS[1][1]
"""Seconds after which superfluous points are looked for again."""


class SharedLook:
    """Looks at all partitions if it is this worker's turn, or takes the last look.

    So Redis has the same work however many workers there are. The looks are the history
    of the crawl. If there are too many failed requests, the worker in turn removes the
    oldest.
    """

    def __init__(
        self, frontier: SharedFrontier, seconds: float, max_failures: int
    ) -> None:
        """``seconds`` are those from one turn to the next."""
        self._frontier = frontier
        self._seconds = seconds
        self._max_failures = max_failures

    def look(self, *, now: bool = False) -> Point | None:
        """Return the state of the crawl; None if no worker has looked yet.

        It is the present state if it has to be ``now``.
        """
        frontier = self._frontier
        turn = frontier.look(self._seconds)
        last = unpacked(turn.last) if turn.last else None
        if not (turn.mine or now):
            return last
        partitions = frontier.states()
        used, _ = frontier.memory_used()
        point = _point(turn, partitions, last)._replace(memory=used)
        if self._max_failures and point.failed > self._max_failures:
            counts = [one.failed for one in partitions]
            frontier.trim_failures(counts, self._max_failures)
        packed = msgpack.packb(list(point))
        milliseconds, _ = point.moment
        frontier.look(self._seconds, packed, milliseconds, self._surplus(point, last))
        return point

    def _surplus(self, point: Point, last: Point | None) -> list[int]:
        """Return the times of the points that are superfluous, once a minute."""
        if last is None or int(point.time / EVERY) == int(last.time / EVERY):
            return []
        _, looks, _ = self._frontier.history(0)
        moments = [unpacked(look).moment for look in looks]
        return [milliseconds for milliseconds, _ in surplus(moments, point.time)]


def unpacked(look: bytes) -> Point:
    """Read a look at a crawl."""
    fields: list[Any] = msgpack.unpackb(look)
    return Point(*fields[: len(Point._fields)])


def _point(
    turn: Turn, partitions: Sequence[PartitionState], last: Point | None
) -> Point:
    """Return a point of the history; figures of one process are 0.

    The time between the ``last`` point and the beginning of the run does not count.
    """
    totals = totals_of(one.totals for one in partitions)
    nothing: dict[str, Any] = dict.fromkeys(Point._fields, 0)
    seconds = 0.0 if last is None else last.seconds
    if last is not None and last.run == turn.run:
        seconds += max(0.0, turn.now - last.time)
    known = {
        "time": turn.now,
        "run": turn.run,
        "seconds": round(seconds, 1),
        "pages": totals.pages,
        "bytes": totals.bytes,
        "items": totals.items,
        "duplicates": totals.duplicates,
        "statuses": totals.statuses_by_hundred,
        "seen": sum(one.keys for one in partitions),
        "pending": sum(one.pending - one.later for one in partitions),
        "later": sum(one.later for one in partitions),
        "leased": sum(one.leased for one in partitions),
        "slots": sum(one.slots for one in partitions),
        "failed": sum(one.failed for one in partitions),
    }
    return Point(**{**nothing, **known})
