"""Turns: which slot is next. The one least busy, in rotation among equals."""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.line import Line

__all__ = ["Turns"]


class Turns:
    """Lines with pending requests, by the number of their requests under way.

    A line stands in the queue of the lines as busy as itself. It is asked whether
    it is ready when it comes to the front; if it is not, it is set aside until its
    time has come or one of its requests is through, so that a call costs the same
    however many lines there are. ``wait(slot, under_way)`` answers with the seconds
    until the slot may have another request; 0 means now.
    """

    def __init__(self, wait: Callable[[str, int], float]) -> None:
        self._wait = wait
        self._queues: list[OrderedDict[Line, None]] = [OrderedDict()]
        self._aside: OrderedDict[Line, None] = OrderedDict()
        self._alarms: list[tuple[float, int, Line]] = []
        self._alarm = 0

    def join(self, line: Line) -> None:
        """Take in a line that has something pending; it may be here already."""
        if line.place is None:
            self._put(line)

    def leave(self, line: Line) -> None:
        """Take out a line that has nothing pending."""
        if line.place is not None:
            del line.place[line]
            line.place = None

    def took(self, line: Line) -> None:
        """Count another request of the line under way: to the end of the queue."""
        line.active += 1
        if line.place is not None:
            self._put(line)

    def freed(self, line: Line) -> None:
        """Count one request of the line less under way."""
        line.active -= 1
        if line.place is not None:
            self._put(line)

    def next(self, now: float) -> Line | None:
        """Return the line whose turn it is, or None if none is ready."""
        alarms = self._alarms
        while alarms and alarms[0][0] <= now:
            _, number, line = heappop(alarms)
            if line.place is self._aside and line.alarm == number:
                self._put(line)
        for active, queue in enumerate(self._queues):
            while queue:
                line = next(iter(queue))
                seconds = self._wait(line.name, active)
                if seconds <= 0:
                    return line
                self._set_aside(line, now + seconds)
        return None

    def next_alarm(self) -> float | None:
        """Return when the next line that was set aside is due."""
        alarms = self._alarms
        while alarms and (
            alarms[0][2].place is not self._aside or alarms[0][2].alarm != alarms[0][1]
        ):
            heappop(alarms)
        return alarms[0][0] if alarms else None

    def _put(self, line: Line) -> None:
        queues = self._queues
        while len(queues) <= line.active:
            queues.append(OrderedDict())
        self._move(line, queues[line.active])

    def _set_aside(self, line: Line, until: float) -> None:
        self._move(line, self._aside)
        self._alarm += 1
        line.alarm = self._alarm
        heappush(self._alarms, (until, self._alarm, line))

    def _move(self, line: Line, place: OrderedDict[Line, None]) -> None:
        if line.place is not None:
            del line.place[line]
        place[line] = None
        line.place = place
