"""ChangingOnRedis: makes changes to a shared crawl."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.on_redis.going.names import name_of
from bloomdupe.crawl.engines.on_redis.messages import (
    REQUEST,
    REQUESTS,
    message_of,
    payload_of,
)
from bloomdupe.crawl.engines.on_redis.shared_failures import (
    as_in_a_store,
    failure_of,
    repetition_of,
)
from bloomdupe.crawl.leases.failure import mark_of
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.errors import StoreLockedError
from bloomdupe.jobs.changes import Chosen, Dropped, RequeuedFailures, failed_to_repeat
from bloomdupe.jobs.on_redis.shared_job import begin_shared_job, project_of_shared_job
from bloomdupe.jobs.selection import Search
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.redis.partition import Offer, SeenMark, Taken
from bloomdupe.redis.server import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.settings import Settings

    from bloomdupe.crawl.added_requests import Asked
    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.changes import Added
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.selection import Selection
    from bloomdupe.redis.frontier_reader import OnRedis


class ChangingOnRedis:
    """Makes the changes in the partitions themselves: no worker is asked.

    Close it at the end. Raises the errors of :meth:`OpenFrontier.open`. ``adding``
    requests begins a crawl of ``spider`` if the name has no crawl, with the settings of
    the project. A crawl that is there keeps its own settings. All other changes are
    refused while workers run.
    """

    def __init__(
        self, url: str, settings: Settings | None, spider: str | None, *, adding: bool
    ) -> None:
        self._url = url
        self._settings = settings
        self._spider = spider
        if adding and OpenFrontier.identity_at(url) is None:
            begin_shared_job(url, settings, spider)
        # Added requests come behind all others of their priority.
        self._frontier = OpenFrontier.open(url, fifo=adding)
        with ExitStack() as undo:
            undo.callback(self._frontier.close)
            if not adding:
                self._check_no_workers()
            undo.pop_all()

    def _check_no_workers(self) -> None:
        workers = self._frontier.workers()
        if workers:
            raise StoreLockedError(
                f"{self._frontier.shown} is in use by {plural(len(workers), 'worker')},"
                " and this needs a job that does not run: stop them (`bloomdupe stop"
                " --wait`), run this again, and then the crawl: it goes on"
            )

    def close(self) -> None:
        """Close the connection."""
        self._frontier.close()

    @cached_property
    def project(self) -> Project:
        """The project of the crawl."""
        return project_of_shared_job(self._url, self._settings, self._spider)

    @cached_property
    def _rules(self) -> Rules:
        return Rules.of({"blocked": self._frontier.rules})

    def add(self, requests: list[Asked], added: Added) -> None:
        """See :meth:`ChangingJob.add`; with ``dont_filter``, each is always new."""
        free = [one for one in requests if not self._rules.keep_out(one.slot, one.url)]
        taken = self._frontier.offer(map(self._new, free))
        added.taken_in += taken.count(Taken.NEW)
        added.seen += taken.count(Taken.SEEN)
        added.blocked += len(requests) - len(free)

    def _new(self, one: Asked) -> Offer:
        """Return a request that is added if it is not known."""
        if one.dont_filter:
            offer = _offer_of(one)
        else:
            payload = payload_of(REQUEST, one.key, one.payload)
            offer = Offer(one.slot, one.key, payload, one.priority, known_as=one.key)
        due = one.not_before
        if due is not None:
            due += self._frontier.clock_ahead
        start = one.start and self.project.order.starts_apart
        return offer._replace(start=start, not_before=due)

    def requeue_failed(
        self, selection: Selection, reasons: tuple[str, ...], added: Added
    ) -> None:
        """See :meth:`ChangingJob.requeue_failed`: partition by partition."""
        found = ((one, failure_of(one)) for one in self._frontier.failures())
        failed = failed_to_repeat(found, selection, reasons, self._rules, added)
        wanted = [(stored, repetition_of(one)) for stored, one in failed]
        taken_in = self._frontier.requeue(wanted)
        added.taken_in += taken_in
        added.waited += len(wanted) - taken_in

    def requeue(self, requests: list[Asked], added: Added) -> None:
        """See :meth:`ChangingJob.requeue`."""
        known = self._frontier.knows([SeenMark(one.slot, one.key) for one in requests])
        seen = [one for one, is_known in zip(requests, known, strict=True) if is_known]
        free = [one for one in seen if not self._rules.keep_out(one.slot, one.url)]
        wanted = {one.key: one for one in free}
        pending = self._pending_among(wanted.values()) if wanted else set()
        again = [one for key, one in wanted.items() if key not in pending]
        added.taken_in += len(again)
        added.waited += len(wanted.keys() & pending)
        added.unseen += len(requests) - len(seen)
        added.blocked += len(seen) - len(free)
        self._frontier.offer(_offer_of(one) for one in again)

    def drop(self, selection: Selection, pages: dict[bytes, str]) -> Dropped:
        """See :meth:`ChangingJob.drop`: slot by slot."""
        dropped = in_progress = 0
        chosen_by = Chosen(selection, pages, lambda: self.project)
        frontier = self._frontier

        def chosen(found: Iterable[OnRedis]) -> Iterator[tuple[OnRedis, bytes]]:
            for one, payload in _requests(found):
                if chosen_by.has(one.slot, payload):
                    yield one, payload

        for number in range(frontier.partitions):
            failures = map(as_in_a_store, frontier.failures(number))
            requeued = RequeuedFailures(failures)
            slots = frontier.slots(number).keys()
            wanted = sorted(slots & {selection.slot or slot for slot in slots})
            pending = (frontier.pending_of(number, [slot]) for slot in wanted)
            for found in map(chosen, (*pending, frontier.later(number))):
                while portion := list(islice(found, AT_ONCE)):
                    removed = [
                        (one, _key_of(requeued.taken(payload)))
                        for one, payload in portion
                    ]
                    dropped += frontier.drop(number, removed)
            in_progress += sum(1 for _ in chosen(frontier.handed_out(number)))
        left = sum(one.pending for one in frontier.states())
        return Dropped(dropped, left, in_progress)

    def _pending_among(self, wanted: Iterable[Asked]) -> set[bytes]:
        """Return the fingerprints of requests that are pending or in progress."""
        urls = {one.key: one.url for one in wanted}
        search = Search(urls, self.project)
        found = (search.key_of(payload) for _, payload in self._stored())
        return {key for key in found if key is not None}

    def _stored(self) -> Iterator[tuple[OnRedis, bytes]]:
        """Yield the requests that are pending or in progress, as a store has them."""
        frontier = self._frontier
        for number in range(frontier.partitions):
            yield from _requests(
                frontier.pending_of(number, sorted(frontier.slots(number)))
            )
            yield from _requests(frontier.later(number))
            yield from _requests(frontier.handed_out(number))


def _key_of(failed: tuple[bytes, Failure] | None) -> bytes:
    """Return the key of a failed request on Redis, or nothing."""
    return b"" if failed is None else mark_of(failed[1].url) + failed[0]


def _requests(found: Iterable[OnRedis]) -> Iterator[tuple[OnRedis, bytes]]:
    """Yield requests, each with its payload in a store."""
    for one in found:
        message = message_of(one.payload)
        if message.kind in REQUESTS:
            yield one, message.body


def _offer_of(one: Asked) -> Offer:
    """Return a request with a name of its own, so that it is not known."""
    name = name_of(b"requeue", one.key, os.urandom(16))
    payload = payload_of(REQUEST, name, one.payload)
    return Offer(one.slot, name, payload, one.priority)
