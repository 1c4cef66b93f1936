"""What a change does to a request that is pending or has failed, on either engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.payload import url_of
from bloomdupe.jobs.selection import Search, Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.added import Added
    from bloomdupe.jobs.selection import RequestReader

    Name = TypeVar("Name")


class Dropped(NamedTuple):
    """Counts of pending requests after some were removed."""

    dropped: int
    left: int
    in_progress: int
    """On Redis, selected requests of workers that were killed: these come again."""


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
            added.problems.add(one.url, _never_stored(one))
        elif rules.keep_out(one.slot, one.url):
            added.blocked += 1
        else:
            yield name, one


def _never_stored(one: Failure) -> str:
    """Return why a failed request cannot be pending again, and the remedy."""
    source = one.parent or "the page that has led to it"
    return (
        "it could not be stored, or its page comes again by itself;"
        f" {source} yields it again"
    )


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
