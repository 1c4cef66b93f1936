"""What a change does to requests: counts, and which of them are meant."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.pending_requests import count_pending, pending_that
from bloomdupe.jobs.lines import Problems
from bloomdupe.jobs.selection import Search
from bloomdupe.requests.layout import summary_of
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.jobs.selection import RequestReader, Selection
    from bloomdupe.store.store import Store

    Name = TypeVar("Name")


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
    stores: list[Store], pages: dict[bytes, str], keys: RequestReader | None
) -> Iterator[tuple[bytes, PendingRequest]]:
    """Yield the pending requests for some pages, each with its fingerprint.

    ``pages`` has the URL of each fingerprint; ``keys``, which reads requests, may be
    None if there are none.
    """
    if not pages or keys is None:
        return
    search = Search(pages, keys)
    read = chain.from_iterable(pending_that(one, search.may_be) for one in stores)
    task, total = f"Reading {stores[0].shown}", sum(map(count_pending, stores))
    some = told(read, task, total, "requests", itemgetter(0))
    for one in chain.from_iterable(found for _, found in some):
        key = search.key_of(one.payload)
        if key is not None:
            yield key, one


class Chosen:
    """Chooses pending requests by slot and pattern, and by their pages if given.

    ``pages`` has the URL of each fingerprint. ``keys`` returns what reads requests; it
    is called for pages only.
    """

    def __init__(
        self,
        selection: Selection,
        pages: dict[bytes, str],
        keys: Callable[[], RequestReader],
    ) -> None:
        self.selection = selection
        self._search = Search(pages, keys()) if pages else None

    def has(self, slot: str, payload: bytes) -> bool:
        """Whether a pending request is chosen."""
        if self._search is not None and self._search.key_of(payload) is None:
            return False
        if self.selection.pattern is None:
            return self.selection.slot in (None, slot)
        try:
            return self.selection.has(slot, summary_of(payload).url)
        except UnserializableError:
            return False


def failed_to_repeat(
    found: Iterable[tuple[Name, Failure]],
    selection: Selection,
    reasons: tuple[str, ...],
    rules: Rules,
    added: Added,
) -> Iterator[tuple[Name, Failure]]:
    """Yield the chosen failed requests that can be made pending again.

    The others are counted in ``added``.
    """
    for name, one in found:
        if not (one.is_to_retry(reasons) and selection.has(one.slot, one.url)):
            continue
        if one.waiting:
            added.waited += 1
        elif one.payload is None:
            source = one.parent or "the page that has led to it"
            added.problems.add(
                one.url,
                "it could not be stored, or its page comes again by itself;"
                f" {source} yields it again",
            )
        elif rules.keep_out(one.slot, one.url):
            added.blocked += 1
        else:
            yield name, one


class RequeuedFailures:
    """Failed requests that are pending again, as long as they may be removed.

    A retry has different ``meta``, so they are told apart by method and URL.
    """

    def __init__(self, failures: Iterable[tuple[bytes, Failure]]) -> None:
        self._failures: dict[tuple[str, str], list[tuple[bytes, Failure]]] = {}
        for digest, one in failures:
            if one.waiting and one.payload is not None:
                same = self._failures.setdefault(_name_of(one.payload), [])
                same.append((digest, one))

    def taken(self, payload: bytes) -> tuple[bytes, Failure] | None:
        """Take out the failed request that a pending request repeats, with its key."""
        same = self._failures.get(_name_of(payload)) if self._failures else None
        return same.pop() if same else None


def _name_of(payload: bytes) -> tuple[str, str]:
    try:
        summary = summary_of(payload)
    except UnserializableError:  # it is damaged
        return "", url_of(payload)
    return summary.method, summary.url
