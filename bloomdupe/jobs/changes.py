"""What a change does to requests: counts, and which of them are meant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.pending_requests import count_pending, portions
from bloomdupe.jobs.lines import Problems
from bloomdupe.jobs.selection import Search
from bloomdupe.requests.layout import summary_of
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.jobs.project import Project
    from bloomdupe.store.store import Store


@dataclass
class Added:
    """Counts of requests that were added by hand, by result."""

    taken_in: int = 0
    """Requests that are pending now."""
    seen: int = 0
    """Requests that were seen before, and so skipped."""
    waited: int = 0
    """Requests that were pending already, and so left as they are."""
    unseen: int = 0
    """Requests that were never seen, and so cannot be repeated."""
    blocked: int = 0
    """Requests that a rule of ``bloomdupe block`` keeps out."""
    handed_over: int = 0
    """Requests that the running crawl is to take in."""
    problems: Problems = field(default_factory=Problems)

    def count(self, name: str) -> None:
        """Count a request by the name of a field."""
        setattr(self, name, getattr(self, name) + 1)


class Dropped(NamedTuple):
    """Counts of pending requests after some were removed."""

    dropped: int
    left: int


def pending_among(
    stores: list[Store], pages: dict[bytes, str], project: Project
) -> Iterator[tuple[bytes, PendingRequest]]:
    """Yield the pending requests for some pages, each with its fingerprint.

    ``pages`` has the URL of each fingerprint.
    """
    if not pages:
        return
    search = Search(pages, project)
    for store in stores:
        for some in told_portions(store):
            for one in some:
                key = search.key_of(one.payload)
                if key is not None:
                    yield key, one


def told_portions(
    store: Store, slot: str | None = None
) -> Iterator[list[PendingRequest]]:
    """Yield the pending requests of a store in portions, and tell how far it is."""
    total, task = count_pending(store, slot), f"Reading {store.shown}"
    return told(portions(store, slot), task, total, "requests", len)


def requeued_among(
    failures: Iterable[tuple[bytes, Failure]],
) -> dict[tuple[str, str], list[tuple[bytes, Failure]]]:
    """Return the failed requests that are pending again, by :func:`name_of`."""
    found: dict[tuple[str, str], list[tuple[bytes, Failure]]] = {}
    for digest, one in failures:
        if one.waiting and one.payload is not None:
            found.setdefault(name_of(one.payload), []).append((digest, one))
    return found


def name_of(payload: bytes) -> tuple[str, str]:
    """Return method and URL of a request, which its retry has in common with it."""
    try:
        summary = summary_of(payload)
    except UnserializableError:  # it is damaged
        return "", url_of(payload)
    return summary.method, summary.url
