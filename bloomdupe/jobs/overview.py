"""Overview: the state of a job, as of its last checkpoint."""

from __future__ import annotations

import heapq
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.rounds import IMPORT
from bloomdupe.crawl.state.blocked import BLOCKED
from bloomdupe.errors import StoreError
from bloomdupe.frontier.pending_requests import slots_of
from bloomdupe.store import files
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.store.snapshot import Snapshot

__all__ = ["LARGEST", "Output", "Overview", "overview"]

LARGEST = 10
"""Number of slots to name, those with the most requests."""


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
    pending: int
    """Requests in the store, those in progress included."""
    later: int
    """Requests among these that are scheduled for later."""
    taken_in: int
    """Requests ever added."""
    pages: int
    """Responses to finished requests."""
    items: int
    runs: int
    seconds: float
    """Seconds of all runs together."""
    slots: int
    """Slots with requests."""
    largest: list[tuple[str, int]]
    """Slots with the most requests, and their numbers of requests."""
    outputs: list[Output]
    half_imported: bool
    """Whether an import was interrupted, and has to be run again."""
    blocked: list[dict[str, Any]]
    """See :class:`bloomdupe.crawl.state.blocked.Blocked`."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return asdict(self) | {"largest": dict(self.largest)}


def overview(path: Path) -> Overview | None:
    """Return the state of the job with the store at ``path``, also while it runs.

    None if the store has never belonged to a crawl. Takes a second for a million slots,
    however many requests are pending in them.
    """
    process = files.owner_of(path)
    store = Store.open(path, readonly=True, network=True)
    try:
        with store.snapshot() as snapshot:
            frontier = snapshot.record("frontier")
            crawl = snapshot.record("crawl") or {}
            outputs = _outputs(snapshot, crawl)
            notes = (snapshot.record("filter") or {}).get("notes", {})
            transaction = snapshot.transaction
        if frontier is None:
            return None
        slots = slots_of(store)
    finally:
        store.close()
    totals = crawl.get("totals", {})
    later = frontier.get("later", {"requests": 0})["requests"]
    largest = heapq.nlargest(LARGEST, slots, key=lambda slot: slot.requests)
    return Overview(
        process=process,
        last_run=notes.get("run"),
        round=notes.get("generation", 1),
        finished_at=notes.get("finished"),
        checkpoint_at=_written_at(path),
        transaction=transaction,
        pending=frontier["requests"] + later,
        later=later,
        taken_in=frontier["sequence"],
        pages=totals.get("pages", 0),
        items=totals.get("items", 0),
        runs=totals.get("runs", 0),
        seconds=totals.get("seconds", 0.0),
        slots=len(slots),
        largest=[(slot.name, slot.requests) for slot in largest],
        outputs=outputs,
        half_imported=not notes.get(IMPORT, {"done": True})["done"],
        blocked=notes.get(BLOCKED, []),
    )


def _outputs(snapshot: Snapshot, crawl: dict[str, Any]) -> list[Output]:
    """Read the feeds; see :class:`bloomdupe.crawl.engines.checkpoint.CrawlRecord`."""
    outputs = []
    for feed in crawl.get("feeds", {}).values():
        size = None
        if feed["file"] is not None:
            name = f"feed{feed['file']}"
            file = crawl["files"][feed["file"]]
            size = file["base"]
            if name in crawl["blobs"]:
                piece = len(snapshot.blob(name, crawl["blobs"][name]))
                size += piece - file.get("held", 0)
        outputs.append(Output(feed["uri"], feed["items"], size))
    return outputs


def _written_at(path: Path) -> float:
    try:
        return (path / files.DATA).stat().st_mtime
    except OSError as error:
        raise StoreError(f"cannot look at {path / files.DATA}: {error}") from error
