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
    from bloomdupe.jobs.state import State
    from bloomdupe.jobs.worker_figures import WorkerFigures

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
class RunFigures:
    """The figures that only a job on disk has. Times are in Unix seconds."""

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
    """Number of the LMDB transaction that wrote it."""
    runs: int
    seconds: float
    """Seconds of all runs together."""
    outputs: list[Output]
    paused: list[str]
    """Slots that the user has paused."""
    versions: dict[str, str]
    """The versions of Scrapy and bloomdupe in the last run, by package."""


@dataclass(frozen=True)
class Overview:
    """A job. Either ``runs`` or ``workers`` is None, by the engine."""

    state: State
    pending: int
    """Pending requests; on disk, those in progress included."""
    later: int
    """Those of them that are scheduled for later."""
    taken_in: int
    """Requests ever added."""
    totals: Totals
    """Counts of the requests that are done, over all runs or workers."""
    slots: dict[str, int]
    """Slots with pending requests, and their numbers of requests; on Redis, also slots
    that rest while a worker has all their requests.
    """
    resting: dict[str, Rest]
    """Those of them that rest."""
    delays: dict[str, float]
    """Seconds between two requests, of the largest slots that have a delay."""
    failed: dict[str, int]
    """Failed requests that were not retried since, by cause, the largest first."""
    blocked: list[dict[str, Any]]
    """Rules of the user; see :class:`bloomdupe.crawl.state.rules.Rules`."""
    runs: RunFigures | None = None
    workers: WorkerFigures | None = None

    @property
    def pages(self) -> int:
        """Responses to requests that are done."""
        return self.totals.pages

    @property
    def at_rest(self) -> set[str]:
        """Slots with pending requests that get none now: they rest, or are paused."""
        paused = () if self.runs is None else self.runs.paused
        return self.slots.keys() & {*self.resting, *paused}

    @property
    def all_rest(self) -> bool:
        """Whether requests are pending, and all their slots rest.

        That is not known of workers, which have requests of other slots at hand.
        """
        return self.runs is not None and 0 < len(self.at_rest) == len(self.slots)

    @property
    def unattended(self) -> int:
        """Partitions that need a worker, and have none; none if it has finished."""
        if self.workers is None or self.state.name == FINISHED:
            return 0
        return self.workers.unowned_partitions

    def slowness(self, slot: str) -> str:
        """Return why a slot is slow, if that is known: its rest, or its delay."""
        if self.runs is not None and slot in self.runs.paused:
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
        common = {
            **self.state.as_dict(),
            "pending": self.pending,
            "later": self.later,
            "taken_in": self.taken_in,
            "pages": self.pages,
            "items": self.totals.items,
            "slots": len(self.slots),
            "largest": dict(self.largest()),
            "resting": {slot: rest._asdict() for slot, rest in self.resting.items()},
            "delays": self.delays,
            "failed": self.failed,
            "blocked": self.blocked,
        }
        for figures in (self.workers, self.runs):
            if figures is not None:
                common |= asdict(figures)
        return common


def slot_name(name: str) -> str:
    """Return a slot's name; items of ``start()`` have no slot."""
    return name or "(no slot)"
