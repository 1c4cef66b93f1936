"""Stop points: places in a running crawl where the process is ended, or made to fail.

For the process that crawls. It has points put around its changes, see
``placing.py``; spiders and third-party components name points of their own. The
environment chooses the stop:

``STOP``    JSON of a :class:`Stop`; without it the crawl goes on
``EVENTS``  file to which each event is written, a line each; it outlives the process

The points are numbered through as they are passed, so a crawl can be stopped at each
of them in turn.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import json
import os
import signal
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy import Spider

TURNS = 2
"""Checkpoints of a moment: what a page has just put out is through its pipelines."""

_write = os.write
_kill = os.kill


@dataclass(frozen=True)
class Stop:
    """The point at which a run is stopped.

    The site stops it before it answers the request of this number. Or the process stops
    itself at the point of this number (counted from the point ``since``, or from the
    first point), or at the ``nth`` point with a name that begins so. ``action`` is
    ``kill``, or the name of an error that is raised there, or of a signal of a user:
    ``SIGINT``, ``SIGINT twice``, ``SIGTERM``. It may write down all points (``trace``).
    """

    request: int | None = None
    number: int | None = None
    since: str | None = None
    point: str | None = None
    nth: int = 1
    action: str = "kill"
    trace: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """Say so to a process."""
        return {"STOP": json.dumps(asdict(self))}


NOWHERE = Stop()


class Points:
    """Counts the points of this process, and acts when the chosen one is reached."""

    stop = NOWHERE
    _passed = _matching = 0
    _first: int | None = 0
    _events: int | None = None

    def use(self, stop: Stop | None = None) -> None:
        """Have this stop, or that of the environment, before the first point."""
        self.stop = stop or Stop(**json.loads(os.environ["STOP"]))
        self._first = 0 if self.stop.since is None else None
        if events := os.environ.get("EVENTS"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._events = os.open(events, flags, 0o600)

    def tell(self, *words: object) -> None:
        """Write an event down; the kernel keeps it even if this process is killed."""
        if self._events is not None:
            _write(self._events, (" ".join(map(str, words)) + "\n").encode())

    def reach(self, point: str, *, raises: bool = True, system: bool = False) -> None:
        """Pass a point, or end here.

        Where only these tests could raise, only a kill ends it (``raises``). A call of
        the ``system`` raises no errors of a user's code.
        """
        self._passed += 1
        stop, action = self.stop, self.stop.action
        if stop.trace:
            self.tell("point", self._passed, point)
        if point == stop.since:
            self._first = self._passed
        here = False
        if stop.number is not None and self._first is not None:
            here = stop.number == self._passed - self._first
        elif stop.point is not None and point.startswith(stop.point):
            self._matching += 1
            here = self._matching == stop.nth
        if system and action == "ValueError":
            action = "EIO"
        if here and (raises or action == "kill" or action.startswith("SIG")):
            self.tell("stopped", self._passed, point)
            act(action)

    def around(
        self,
        name: str,
        function: Callable[[], Any],
        *,
        raises: bool = True,
        system: bool = False,
    ) -> Any:
        """Call a function between two points."""
        self.reach(f"before {name}", raises=raises, system=system)
        result = function()
        self.reach(f"after {name}", raises=raises, system=system)
        return result


def act(action: str) -> None:
    """End this process, send it a signal, or raise: ``kill``, ``SIGTERM``, ``EIO``."""
    name, _, twice = action.partition(" ")
    if action == "kill":
        _kill(os.getpid(), signal.SIGKILL)
    elif name in signal.Signals.__members__:
        for _ in range(2 if twice else 1):
            _kill(os.getpid(), signal.Signals[name])
    elif hasattr(builtins, action):
        raise getattr(builtins, action)("as the stop point was told")
    else:
        number = getattr(errno, action)
        raise OSError(number, os.strerror(number))


POINTS = Points()
"""Of this process."""


def tell(*words: object) -> None:
    """Write an event of this process down."""
    POINTS.tell(*words)


# For spiders, and for third-party components


def call(name: str) -> None:
    """Pass a call of a component that is not bloomdupe's: only a kill ends it."""
    POINTS.reach(f"call {name}", raises=False)


def stop_at(name: str) -> None:
    """Pass a point that the spider has named, and stop here if it is the one."""
    POINTS.reach(f"here {name}")


def wanted(name: str) -> bool:
    """Whether this run is to be stopped at a point that the spider has named."""
    return POINTS.stop.point == f"here {name}"


async def moment(
    spider: Spider,
    name: str,
    when: Callable[[], bool] = lambda: True,
) -> None:
    """Stop here, when a checkpoint holds all that has happened so far.

    Only in a run that is to be stopped here; any other goes on at once. ``when`` says
    whether that has happened which is to be in the checkpoint. No request is sent from
    then on, or a quick crawl would be over before the checkpoint.
    """
    if not wanted(name):
        return
    while not when():
        await pause(0.01)
    engine: Any = spider.crawler.engine
    engine.pause()
    await durable(spider)
    stop_at(name)


async def durable(spider: Spider) -> None:
    """Let a checkpoint, or Redis, hold all that has happened so far.

    It does not wait for pages that are not done, as one that comes by itself may.
    """
    engine: Any = spider.crawler.engine
    for _ in range(TURNS):
        await pause(0.01)
        engine._slot.scheduler._session.engine.committing.write()


async def pause(seconds: float) -> None:
    """Let other tasks run."""
    await asyncio.sleep(seconds)  # noqa: TID251 - what the loops of spiders call


def events(path: Path) -> list[list[str]]:
    """Read the events of a run; for the parent."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [line.split(" ") for line in lines]
