"""What a change does to requests, on either engine: adding, repeating, removing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from bloomdupe.crawl.added_requests import Asked
from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.payload import url_of
from bloomdupe.jobs.lines import Problems
from bloomdupe.jobs.selection import Search
from bloomdupe.requests.layout import summary_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.request_line import Wanted
    from bloomdupe.jobs.selection import RequestReader, Selection

    Name = TypeVar("Name")

MOST_AT_ONCE = 1_000
"""Requests that are added at once, so that a running crawl need not stop for long."""
MOST_BYTES = 1 << 20
"""Bytes of the stored requests that are added at once, unless one has more."""


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
    in_progress: int
    """On Redis, selected requests of workers that were killed: these come again."""


class AddingJob(Protocol):
    """Takes requests into a job, which may run; it is to be closed."""

    @property
    def project(self) -> Project:
        """The project of the job."""

    def add(self, requests: list[Asked], added: Added) -> None:
        """Make requests pending that the job has not seen, and count them.

        A job that runs takes them in later.
        """

    def close(self) -> None:
        """End the work on the job."""


class ChangingJob(AddingJob, Protocol):
    """Makes changes to a job that does not run."""

    def requeue(self, requests: list[Asked], added: Added) -> None:
        """Make pages pending again that are done, and count them.

        Pages that are pending are left, and so are pages that were never seen.
        """

    def requeue_failed(
        self, selection: Selection, reasons: tuple[str, ...], added: Added
    ) -> None:
        """Make requests pending again that failed for these reasons (() are all)."""

    def drop(self, selection: Selection, pages: dict[bytes, str]) -> Dropped:
        """Remove pending requests: those for the ``pages`` only, if there are any.

        ``pages`` has the URL of each fingerprint.
        """


def add(found: Iterable[Wanted], job: AddingJob, added: Added) -> None:
    """Add requests that were not seen, in a transaction for every thousand.

    After an interruption, committed requests stay, and count as seen the next time.
    """
    portion: list[Asked] = []
    size = 0
    for one in _asked(found, job):
        portion.append(one)
        size += len(one.payload)
        if len(portion) == MOST_AT_ONCE or size >= MOST_BYTES:
            job.add(portion, added)
            portion, size = [], 0
    if portion:
        job.add(portion, added)


def requeue(
    found: Iterable[Wanted], job: ChangingJob, selection: Selection, added: Added
) -> None:
    """Make finished pages pending again, in one transaction.

    Memory grows with the given requests, about 1 kB each.
    """
    from bloomdupe.jobs.request_line import brought_back

    requests = [
        one._replace(payload=brought_back(one.payload))
        for one in _asked(found, job)
        if selection.has(one.slot, one.url)
    ]
    job.requeue(requests, added)


def _asked(found: Iterable[Wanted], job: AddingJob) -> Iterator[Asked]:
    for one in found:
        key, exact = job.project.key_of(one.request)
        yield Asked(
            one.request.url,
            key,
            exact,
            one.slot,
            one.request.priority,
            one.payload,
            one.start,
            one.request.dont_filter,
            one.not_before,
        )


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
