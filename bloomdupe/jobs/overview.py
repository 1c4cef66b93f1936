"""Overview: the state of a job, as of its last checkpoint, on either engine."""

from __future__ import annotations

import heapq
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.pace import clock
from bloomdupe.jobs.state import FINISHED

if TYPE_CHECKING:
    from bloomdupe.crawl.totals import Totals
    from bloomdupe.frontier.slot_state import Rest
    from bloomdupe.jobs.state import State, WorkerFigures

LARGEST = 10
"""Number of slots to name, those with the most requests."""
MOST_SLOTS = 100
"""Slots with details, those with the most requests."""


@dataclass(frozen=True)
class Output:
    """An output file of the crawl."""

    uri: str
    items: int
    """Committed items; of a feed in batches, those of the present file."""
    bytes: int | None
    """Committed bytes of the file; None: it is complete, or not begun."""


@dataclass(frozen=True)
class Overview:
    """A job. Times are in Unix seconds."""

    state: State
    pending: int
    """Pending requests; those in progress included."""
    later: int
    """Those of them that are scheduled for later."""
    taken_in: int
    """Requests ever added."""
    totals: Totals
    """Counts of the requests that are done, over all runs."""
    slots: dict[str, int]
    """Slots with pending requests, and their numbers of requests."""
    resting: dict[str, Rest]
    """Those of them that rest."""
    delays: dict[str, float]
    """Seconds between two requests, of the largest slots that have a delay."""
    blocked: list[dict[str, Any]]
    """Rules of the user; see :class:`bloomdupe.crawl.state.rules.Rules`."""
    paused: list[str]
    """Slots that the user has paused."""
    process: int | None
    """The process that runs the job; None: no process; 0: its number is hidden."""
    last_run: str | None
    """How the last run ended: Scrapy's reason, or ``open`` if it runs or was killed.
    None: there was no run.
    """
    round: int
    finished_at: float | None
    """Time when the crawl last finished."""
    checkpoint_at: float
    """Time when the store was last written."""
    transaction: int
    """Number of the commit that wrote it."""
    outputs: list[Output]
    versions: dict[str, str]
    """The versions of Scrapy and bloomdupe in the last run, by package."""
    workers: WorkerFigures | None
    """None: the job is in a directory."""

    @property
    def pages(self) -> int:
        """Responses to requests that are done."""
        return self.totals.pages

    @property
    def at_rest(self) -> set[str]:
        """Slots with pending requests that get none now: they rest, or are paused."""
        return self.slots.keys() & {*self.resting, *self.paused}

    @property
    def all_rest(self) -> bool:
        """Whether requests are pending, and all their slots rest."""
        return 0 < len(self.at_rest) == len(self.slots)

    @property
    def unattended(self) -> int:
        """Partitions that need a worker, and have none; none if it has finished."""
        if self.workers is None or self.state.name == FINISHED:
            return 0
        return self.workers.unowned_partitions

    def slowness(self, slot: str) -> str:
        """Return why a slot is slow, if that is known: its rest, or its delay."""
        if slot in self.paused:
            return "paused"
        rest, delay = self.resting.get(slot), self.delays.get(slot)
        if rest is not None:
            end = clock(rest.until, self.state.read_at)
            return f"rests until {end} ({rest.reason})"
        return "" if delay is None else f"a request every {delay:.3g} s"

    def largest(self, count: int = LARGEST) -> list[tuple[str, int]]:
        """Return the slots with the most pending requests."""
        return heapq.nsmallest(
            count, self.slots.items(), key=lambda slot: (-slot[1], slot[0])
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        names = (
            "pending", "later", "taken_in", "pages", "delays", "blocked",
            "paused", "process", "last_run", "round", "finished_at", "checkpoint_at",
            "transaction", "versions",
        )  # fmt: skip
        return {
            **self.state.as_dict(),
            **{name: getattr(self, name) for name in names},
            "items": self.totals.items,
            "slots": len(self.slots),
            "largest": dict(self.largest()),
            "resting": {slot: rest._asdict() for slot, rest in self.resting.items()},
            "outputs": [asdict(output) for output in self.outputs],
            **({} if self.workers is None else asdict(self.workers)),
        }


def slot_name(name: str) -> str:
    """Return a slot's name; items of ``start()`` have no slot."""
    return name or "(no slot)"
