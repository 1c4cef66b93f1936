"""State: whether a job is alive. One decision, from the signs that an engine finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bloomdupe.crawl.progress.pace import clock, duration, when
from bloomdupe.crawl.progress.rounds import FINISHED as ENDED
from bloomdupe.crawl.progress.rounds import OPEN
from bloomdupe.store.files import SILENT_AFTER

NOT_BEGUN, RUNNING, SLEEPING = "not begun", "running", "sleeping"
WAITING = "waiting for URLs"
SILENT = "no sign of life"
STOPPED, KILLED, FINISHED = "stopped", "killed", "finished"
IN_USE = "in use"
"""By a command, or by a crawl that is still being opened."""


@dataclass(frozen=True)
class Signs:
    """Everything from which the state of a job follows."""

    owner: str | None
    """The process or the workers that have the job; None: it has no owner."""
    beat: float | None
    """Unix time of the owner's last sign of life; None: the owner runs no crawl."""
    ended: str | None
    """How the last run ended; ``open`` if it did not say; None: there was no run."""
    ready: bool
    """Whether requests are pending that are not scheduled for later, or in progress."""
    due: float | None = None
    """Unix time of the next request scheduled for later; None: there is none."""
    finished_at: float | None = None
    """Unix time when the job was last finished."""
    stays: bool = False
    """Whether the crawl stays open when nothing is pending."""
    patience: float = SILENT_AFTER
    """Seconds of silence that mean nothing."""


class State(NamedTuple):
    """The state of a job at a moment."""

    name: str
    read_at: float
    """Unix time of this state."""
    detail: str = ""
    """The owner of the job, or the reason why it stopped; empty: none is known."""
    moment: float | None = None
    """Unix time until which it sleeps, of its last sign of life, or of its end."""
    again: bool = False
    """Whether requests are pending although it was finished."""

    @property
    def has_crawl(self) -> bool:
        """Whether a crawl has the job, be it alive or hanging."""
        return self.name in (RUNNING, SLEEPING, WAITING, SILENT)

    @property
    def text(self) -> str:
        """The state in words."""
        if self.name == IN_USE:
            return f"{IN_USE} by {self.detail}"
        if self.name == STOPPED:
            return f"{STOPPED}: {self.detail}"
        text = self.name + self._time
        if self.detail:
            text += f" ({self.detail})"
        return text + (", and has requests again" if self.again else "")

    @property
    def _time(self) -> str:
        if self.moment is None:
            return ""
        if self.name == SILENT:
            return f" for {duration(self.read_at - self.moment)}"
        if self.name == SLEEPING:
            left = duration(self.moment - self.read_at)
            return f" until {clock(self.moment, self.read_at)}, {left} to go"
        return f" at {when(self.moment)}"

    def as_dict(self) -> dict[str, str | float | None]:
        """Return plain types, for JSON."""
        return {
            "state": self.name,
            "state_detail": self.detail or None,
            "state_time": self.moment,
        }


def state_of(signs: Signs, now: float) -> State:
    """Decide the state of a job at Unix time ``now``."""
    if signs.owner is not None:
        return _owned(signs, signs.owner, now)
    if signs.ended is None:
        return State(NOT_BEGUN, now)
    if signs.ended == OPEN:
        return State(KILLED, now)
    if signs.ended == ENDED:
        again = signs.ready or signs.due is not None
        return State(FINISHED, now, moment=signs.finished_at, again=again)
    return State(STOPPED, now, signs.ended)


def _owned(signs: Signs, owner: str, now: float) -> State:
    """Return the state of a job that has an owner: its lock or lease proves it."""
    if signs.beat is None:
        return State(IN_USE, now, owner)
    if now - signs.beat > signs.patience:
        return State(SILENT, now, owner, signs.beat)
    if not signs.ready and signs.due is not None and signs.due > now:
        return State(SLEEPING, now, owner, signs.due)
    if signs.stays and not signs.ready and signs.due is None:
        return State(WAITING, now, owner)
    return State(RUNNING, now, owner)
