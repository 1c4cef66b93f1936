"""State: whether a job is alive. One decision, from the signs that are found."""

from __future__ import annotations

from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.progress.pace import clock, duration, when
from bloomdupe.crawl.progress.rounds import FINISHED as ENDED
from bloomdupe.crawl.progress.rounds import IMPORTED, OPEN
from bloomdupe.store.files import SILENT_AFTER

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_BEGUN, RUNNING, SLEEPING = "not begun", "running", "sleeping"
WAITING = "waiting for URLs"
SILENT = "no sign of life"
STOPPED, KILLED, FINISHED = "stopped", "killed", "finished"
IN_USE = "in use"
"""By a command, or by a crawl that is still being opened."""


@dataclass(frozen=True)
class WorkerFigures:
    """The figures that only a job on Redis has."""

    workers: int
    """Workers that have a partition."""
    partitions: int
    unowned_partitions: int
    """Partitions without an owner."""
    output_entries: int
    """Output entries that were not collected and deleted."""
    memory_bytes: int
    """Bytes of all data in this Redis."""
    memory_limit: int | None
    """Limit of these bytes; None: there is no limit."""


class Life(NamedTuple):
    """Who has a job."""

    owner: str | None = None
    """The process or the workers: a lock or a lease proves it; None: nobody."""
    beat: float | None = None
    """Unix time of the last sign of life; None: no crawl runs."""
    names: frozenset[str] = frozenset()
    """A name for each process or worker."""
    written_at: float = 0.0
    """Unix time of the last checkpoint; 0: there was none."""
    process: int | None = None
    workers: WorkerFigures | None = None

    def silence(self, now: float) -> float | None:
        """Seconds without a sign of life; None if they are no cause for concern."""
        seconds = 0.0 if self.beat is None else now - self.beat
        return seconds if seconds > SILENT_AFTER else None

    @property
    def is_held(self) -> bool:
        """Whether no verb may take it: silent workers have lost their leases."""
        lost = self.workers is not None and self.silence(time()) is not None
        return self.owner is not None and not lost


class State(NamedTuple):
    """The state of a job at a moment."""

    name: str
    read_at: float
    """Unix time of this state."""
    text: str
    """The state in words."""
    detail: str | None = None
    """The owner of the job, or the reason why it stopped, if one is known."""
    moment: float | None = None
    """Unix time until which it sleeps, of its last sign of life, or of its end."""

    @property
    def has_crawl(self) -> bool:
        """Whether a crawl has the job, be it alive or hanging."""
        return self.name in (RUNNING, SLEEPING, WAITING, SILENT)

    def as_dict(self) -> dict[str, str | float | None]:
        """Return plain types, for JSON."""
        return {
            "state": self.name,
            "state_detail": self.detail,
            "state_time": self.moment,
        }


def state_of(
    life: Life,
    notes: Mapping[str, Any],
    *,
    ready: bool,
    due: float | None,
    now: float,
) -> State:
    """Decide the state of a job at Unix time ``now``.

    The ``notes`` are those of the crawl. Requests are ``ready`` that are in progress,
    or not scheduled for later; the next one that is scheduled is ``due`` at a time.
    """
    owner = life.owner
    if owner is None:
        ended = notes.get("run")
        if ended in (None, IMPORTED):
            return State(NOT_BEGUN, now, NOT_BEGUN)
        if ended == OPEN:
            return State(KILLED, now, KILLED)
        if ended != ENDED:
            return State(STOPPED, now, f"{STOPPED}: {ended}", ended)
        at = notes.get("finished")
        text = FINISHED if at is None else f"{FINISHED} at {when(at)}"
        text += ", and has requests again" * (ready or due is not None)
        return State(FINISHED, now, text, moment=at)
    if life.beat is None:
        return State(IN_USE, now, f"{IN_USE} by {owner}", owner)
    name, said, moment = RUNNING, "", None
    if (silence := life.silence(now)) is not None:
        name, said, moment = SILENT, f" for {duration(silence)}", life.beat
    elif not ready and due is not None and due > now:
        name, moment = SLEEPING, due
        said = f" until {clock(due, now)}, {duration(due - now)} to go"
    elif notes.get("stays") and not ready and due is None:
        name = WAITING
    return State(name, now, f"{name}{said} ({owner})", owner, moment)
