"""Run: the state of a job when a run begins, and when it ends."""

from __future__ import annotations

import time
from typing import Any

from bloomdupe._version import __version__

OPEN = "open"
"""Value of the note ``run`` during a run; it stays if the process is killed."""
FINISHED = "finished"
IMPORTED = "imported"
"""The same in a job that has not run, with the requests of another program's crawl."""
VERSIONS = "versions"
"""Name of the note on the packages of the last run."""


def versions_here() -> dict[str, str]:
    """Return the versions of Scrapy and bloomdupe in this process, by package."""
    from scrapy import __version__ as scrapys  # only a verb has not imported it

    return {"scrapy": scrapys, "bloomdupe": __version__}


class Run:
    """One process that works on a job.

    A *round* is a crawl from its start requests until it is finished, in however many
    runs. A finished job stays finished: a further run changes nothing, unless it finds
    work, such as a start request that was not there before, or ``stays`` open for it. A
    new round must be asked for (``again``). ``pending`` is the number of pending
    requests.

    ``notes`` are those of the filter, which are saved with each checkpoint:

    ``run``         how the last run ended; ``open`` if it was killed
    ``generation``  number of the round, from 1
    ``finished``    Unix time
    ``starts``      whether start requests are marked as such in the first round
    ``started``     number of the last round in which ``start()`` has yielded all
    ``stays``       whether the run stays open when nothing is pending
    ``versions``    versions of the last run, by package: Scrapy and bloomdupe

    Among them is also the last message of the inbox
    (:class:`bloomdupe.crawl.added_requests.AddedRequests`).
    """

    def __init__(
        self, notes: dict[str, Any], *, pending: int, again: bool, stays: bool
    ) -> None:
        self._notes = notes
        self._stays = stays
        self.last: str | None = notes.get("run")
        """How the last run ended; None if there was none."""
        self.round: int = notes.get("generation", 1)
        self.new_round = self.last == FINISHED and again
        self.marks_starts: bool = self.last is None or bool(notes.get("starts"))
        """Whether start requests of the first round are marked: not in an imported
        job, of whose start pages the seen URLs tell nothing."""
        if self.new_round:
            self.round += 1
        self.resumed = self.last is not None and not self.new_round
        """Whether an earlier run has worked on this round."""
        self.started: bool = notes.get("started") == self.round
        """Whether an earlier run has accepted all start requests of this round."""
        # Requests may have been added since.
        self.idle = self.last == FINISHED and not (pending or again or stays)
        """Whether the round was finished, and has no new work so far."""
        self.finished_at: float = notes.get("finished", 0.0)
        if not self.idle:
            self.begin()

    def begin(self) -> None:
        """Begin to work; it is durable with the next checkpoint."""
        self.idle = False
        self._notes["run"] = OPEN
        self._notes["generation"] = self.round
        self._notes["starts"] = self.marks_starts
        self._notes["stays"] = self._stays
        self._notes[VERSIONS] = versions_here()

    def start_ended(self) -> None:
        """Record that ``start()`` has ended; durable with the next checkpoint."""
        self._notes["started"] = self.round

    def read_again(self, notes: dict[str, Any]) -> None:
        """Go on with the notes of the last checkpoint, or of another worker's run."""
        self._notes = notes
        self.round = max(self.round, notes.get("generation", 1))
        self.resumed = True
        self.started = notes.get("started") == self.round
        if not self.idle:
            self.begin()

    def end(self, reason: str) -> None:
        """Record how the run ends; it is durable with the next checkpoint."""
        self._notes["run"] = reason
        self._notes["stays"] = False
        if reason == FINISHED:
            self._notes["finished"] = round(time.time(), 3)
