"""SharedJob: a crawl on Redis without running workers, opened for an import."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.crawl_job import CrawlJob
from bloomdupe.crawl.engines.on_redis.joining import check_not_shared, open_frontier
from bloomdupe.crawl.engines.on_redis.messages import REQUEST, payload_of
from bloomdupe.crawl.engines.on_redis.shared_failures import stored_of
from bloomdupe.crawl.engines.on_redis.shared_feeds import shared_feeds_of
from bloomdupe.crawl.progress.rounds import IMPORT
from bloomdupe.crawl.requests.names import name_of
from bloomdupe.crawl.state.blocked import BLOCKED, Blocked, changed_rules
from bloomdupe.filter.parameters import Parameters, check_same
from bloomdupe.jobs.project import Project
from bloomdupe.redis.address import Address
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.redis.partition import Offer, SeenMark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import Settings
    from typing_extensions import Self

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.jobs.receiver import Imported
    from bloomdupe.jobs.request_line import Wanted
    from bloomdupe.redis.settled.failed_requests import StoredFailure

AT_ONCE = 5_000
"""Requests, or fingerprints, that become durable together."""


class SharedJob:
    """A shared crawl that receives an import.

    It is a :class:`~bloomdupe.jobs.receiver.Receiver`. Requests are offered, and
    fingerprints marked, some thousands at once; Redis holds the position after each
    step. A step may be repeated, so a kill costs nothing.

    ``alone`` keeps workers away: a source with seen URLs is imported before any worker
    begins. Lists of requests may come in at any time.
    """

    def __init__(
        self, project: Project, frontier: OpenFrontier, *, alone: bool
    ) -> None:
        self.project = project
        known = frontier.imports.note
        self.notes: dict[str, Any] = {
            IMPORT: {**known, "done": False} if known else None
        }
        self._frontier = frontier
        self._alone = alone
        self._begun = False
        self._starts_apart = project.order.starts_apart
        self._blocked = Blocked(
            frontier.rules, lambda request: project.key_of(request)[0]
        )
        self._offers: list[Offer] = []
        self._marks: list[bytes] = []
        self.seen = 0
        """Number of requests that were seen before."""
        self._failed: list[tuple[SeenMark, StoredFailure]] = []

    @classmethod
    def open_or_begin(
        cls,
        url: str,
        settings: Settings | None,
        spider: str | None,
        header: dict[str, Any] | None,
        *,
        alone: bool,
        marks: bool,
    ) -> Self:
        """Open the crawl that a URL names, or begin it with the project's settings.

        It must be able to receive the data of a job with this ``header``, with
        ``marks`` or without; None: the source is no job of bloomdupe's.

        Raises :class:`SettingError` if there is no crawl and no spider is given, and
        for settings that a shared crawl cannot have. Raises the errors of
        :meth:`OpenFrontier.open` if the crawl was made with different settings.
        """
        key = None
        if header is not None:
            spider = spider or header["identity"].get("spider")
        project = project_of_shared_job(url, settings, spider)
        check_not_shared(project.settings)
        if header is not None:
            key = Parameters.from_header(header, "the source").key
            _check_identity(header, project, marks=marks)
        crawler = project.crawler
        assert crawler.spider is not None  # noqa: S101 - the project has made it
        workers = CrawlJob.of(crawler.spider, crawler.settings)
        # Among requests of the same priority, the oldest request has its turn first.
        feeds = shared_feeds_of(crawler, project.serializer)
        frontier = open_frontier(OpenFrontier, url, workers, feeds, fifo=True, key=key)
        job = cls(project, frontier, alone=alone)
        with ExitStack() as undo:
            undo.callback(job.close)
            if not alone:
                frontier.imports.check_ended()
            if header is not None:
                job._check_source(header, marks=marks)
            undo.pop_all()
        return job

    def _check_source(self, header: dict[str, Any], *, marks: bool) -> None:
        """Refuse a filter that cannot be imported, if its ``marks`` are wanted."""
        if not marks:
            return
        parameters = Parameters.from_header(header, self._frontier.shown)
        self._frontier.imports.check_merge(parameters)

    def close(self) -> None:
        """Close the connection, without uncommitted changes."""
        self._frontier.close()

    # Methods for an import

    @property
    def sequence(self) -> int:
        """0: ages have no meaning here."""
        return 0

    @property
    def due(self) -> bool:
        """Whether it is time to commit."""
        return len(self._offers) + len(self._marks) >= AT_ONCE

    def keeps_out(self, one: Wanted) -> bool:
        """Whether a rule of ``bloomdupe block`` keeps a request out."""
        return self._blocked.drops(one.request, one.slot)

    def take_over(self, one: Wanted, place: int, *, in_any_case: bool) -> bool:
        """Add a pending request; :meth:`commit` tells whether it was seen.

        The source yields requests in the order in which they are to go. So they are
        added as if the oldest went first: behind all requests that the crawl finds, or
        before them with ``fifo``.
        """
        key, _ = self.project.key_of(one.request)
        again = one.request.dont_filter
        name = key
        if again:
            name = name_of(
                b"import", self.notes[IMPORT]["source"].encode(), b"%d" % place
            )
        due = one.not_before
        if due is not None:
            due += self._frontier.clock_ahead
        self._offers.append(
            Offer(
                one.slot,
                name,
                payload_of(REQUEST, name, one.payload),
                one.request.priority,
                one.start and self._starts_apart,
                known_as=None if again or in_any_case else key,
                not_before=due,
            )
        )
        return True

    def take_in_failures(self, found: Iterable[tuple[bytes, Failure]]) -> int:
        """Import failed requests with the next commit; return how many.

        A page that this crawl has seen is left as it is.
        """
        there = {one.key for one in self._frontier.failures()}
        new: dict[bytes, tuple[SeenMark, StoredFailure]] = {}
        for digest, one in found:
            stored = stored_of(digest, one)
            if stored.key not in there:
                key, _ = self.project.key_of_failure(one) or (digest, False)
                new[stored.key] = SeenMark(one.slot, key), stored
        known = self._frontier.knows([mark for mark, _ in new.values()])
        found_new = zip(new.values(), known, strict=True)
        self._failed = [one for one, is_known in found_new if not is_known]
        return len(self._failed)

    def mark(self, fingerprint: bytes) -> None:
        """Mark a fingerprint as seen, in any slot; see :meth:`Receiver.mark`."""
        self._marks.append(fingerprint)

    def merge(self, seen: BloomFilter) -> int:
        """Mark all URLs of a filter as seen; return how many URLs that is."""
        own = seen.counted_layers
        while own and not own[-1][1]:
            own.pop()
        if own:
            self._frontier.imports.merge(
                ((number, *each) for number, each in enumerate(own)),
                seen.parameters,
            )
        return len(seen)

    def commit(self) -> None:
        """Send the changes to Redis, and then the position of the import."""
        imports, note = self._frontier.imports, self.notes[IMPORT]
        rules = self.notes.pop(BLOCKED, ())
        if rules:
            self._frontier.change_rules(
                lambda there: changed_rules(there, rules, undo=False)
            )
        if self._alone and not self._begun:
            imports.begin(note)
        self._begun = True
        if self._failed:
            self._frontier.import_failures(self._failed)
            self._failed.clear()
        self.seen += self._frontier.offer(self._offers).count(False)
        self._offers.clear()
        if self._marks:
            imports.mark(self._marks, self._frontier.parameters)
            self._marks.clear()
        if self._alone:
            imports.keep(note, end=note["done"])

    def complete(self, imported: Imported) -> None:
        """Correct the counts that were given before the import had ended."""
        imported.taken_in -= self.seen
        imported.seen += self.seen


def _check_identity(header: dict[str, Any], project: Project, *, marks: bool) -> None:
    """Refuse the job of another spider, or with other fingerprints.

    Its ``marks`` are of use only if it keeps no URL exactly.
    """
    ours: dict[str, Any] = {
        "spider": project.spider,
        "fingerprinter": project.fingerprinter,
    }
    if marks:
        ours["exact"] = False
    check_same("the source", {"exact": False, **header["identity"]}, ours)


def project_of_shared_job(
    url: str, settings: Settings | None, spider: str | None
) -> Project:
    """Return the project of a shared crawl; see :meth:`Project.of_job`."""
    identity = OpenFrontier.identity_at(url)
    return Project.of_job(settings, spider, identity, Address.of(url).shown)
