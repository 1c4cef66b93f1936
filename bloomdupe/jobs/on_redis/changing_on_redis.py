"""ChangingOnRedis: makes changes to a shared crawl, also while its workers run."""

from __future__ import annotations

import os
import time
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.changes.change import (
    Asked,
    RequeuedFailures,
    failed_to_repeat,
    is_chosen,
    pages_of,
    selection_of,
)
from bloomdupe.crawl.changes.selection import Search
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
from bloomdupe.crawl.requests.names import name_of
from bloomdupe.crawl.state.blocked import Blocked, changed_rules
from bloomdupe.errors import StoreError
from bloomdupe.jobs.job_contract import Made
from bloomdupe.jobs.on_redis.shared_job import begin_shared_job, project_of_shared_job
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.redis.partition import Offer, SeenMark, Taken
from bloomdupe.redis.server import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.settings import Settings

    from bloomdupe.crawl.changes.change import Change
    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.project import Project
    from bloomdupe.redis.frontier_reader import OnRedis

    Answer = dict[str, Any]

PAUSE = 0.25
"""Seconds between two looks for workers that have ended."""


class ChangingOnRedis:
    """Makes the changes in the partitions themselves: no worker is asked.

    Close it at the end. Raises the errors of :meth:`OpenFrontier.open`. ``adding``
    requests begins a crawl of ``spider`` if the name has no crawl, with the settings of
    the project. A crawl that is there keeps its own settings.
    """

    def __init__(
        self, url: str, settings: Settings | None, spider: str | None, *, adding: bool
    ) -> None:
        self._url = url
        self._settings = settings
        self._spider = spider
        self._workers: list[str] = []
        """Those that were asked to stop."""
        if adding and OpenFrontier.identity_at(url) is None:
            begin_shared_job(url, settings, spider)
        # Added requests come behind all others of their priority.
        self._frontier = OpenFrontier.open(url, fifo=adding)
        self._kinds = {
            "add": self._add,
            "requeue": self._requeue,
            "requeue failed": self._requeue_failed,
            "drop": self._drop,
            "block": self._block,
            "stop": self._stop,
        }

    def close(self) -> None:
        """Close the connection."""
        self._frontier.close()

    @cached_property
    def project(self) -> Project:
        """The project of the crawl."""
        return project_of_shared_job(self._url, self._settings, self._spider)

    def make(self, change: Change) -> Made:
        """Make a change."""
        self._frontier.imports.check_ended()
        answer: Answer = {}
        self._kinds[change["kind"]](change, answer)
        return Made(answer, taken_up=False)

    def wait_for_end(self) -> None:
        """Wait until the workers have ended that were asked to stop."""
        while not set(self._workers).isdisjoint(self._frontier.workers()):
            time.sleep(PAUSE)

    def _stop(self, change: Change, answer: Answer) -> None:  # noqa: ARG002
        """Ask all workers to end that are running now."""
        self._workers = self._frontier.workers()
        answer["processes"] = self._frontier.stop_workers()
        if not answer["processes"]:
            raise StoreError(
                f"{self._frontier.shown}: no worker runs, so there is nothing to stop"
            )

    def _add(self, change: Change, answer: Answer) -> None:
        """Offer requests; with ``dont_filter``, each is new every time."""
        asked = [*map(Asked.of, change["requests"])]
        free = [one for one in asked if not self._blocks(one.slot, one.payload)]
        taken = self._frontier.offer(map(self._new, free))
        answer["taken_in"] = taken.count(Taken.NEW)
        answer["seen"] = taken.count(Taken.SEEN)
        answer["blocked"] = len(asked) - len(free)

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

    def _requeue_failed(self, change: Change, answer: Answer) -> None:
        """Make failed requests pending again, partition by partition."""
        found = ((one, failure_of(one)) for one in self._frontier.failures())

        def blocks(slot: str, payload: bytes) -> bool:
            return self._blocks(slot, message_of(payload).body)

        failed = failed_to_repeat(change, found, blocks, answer)
        wanted = [(stored, repetition_of(one)) for stored, one in failed]
        answer["taken_in"] = self._frontier.requeue(wanted)
        answer["waited"] += len(wanted) - answer["taken_in"]

    def _requeue(self, change: Change, answer: Answer) -> None:
        """Make pages pending again that are done."""
        asked = [*map(Asked.of, change["requests"])]
        known = self._frontier.knows([SeenMark(one.slot, one.key) for one in asked])
        seen = [one for one, is_known in zip(asked, known, strict=True) if is_known]
        free = [one for one in seen if not self._blocks(one.slot, one.payload)]
        wanted = {one.key: one for one in free}
        pending = self._pending_among(wanted.values()) if wanted else set()
        again = [one for key, one in wanted.items() if key not in pending]
        answer |= {
            "taken_in": len(again),
            "waited": len(wanted.keys() & pending),
            "unseen": len(asked) - len(seen),
            "blocked": len(seen) - len(free),
        }
        self._frontier.offer(_offer_of(one) for one in again)

    def _block(self, change: Change, answer: Answer) -> None:
        """Change the rules, and remove the requests that match new rules."""
        given, undo = change["rules"], bool(change["undo"])
        answer |= {"dropped": 0, "in_progress": 0}
        answer["rules"] = self._frontier.change_rules(
            lambda there: changed_rules(there, given, undo=undo)
        )
        if not undo:
            self._drop(change, answer)

    def _blocks(self, slot: str, payload: bytes) -> bool:
        """Whether a rule keeps a stored request out."""
        blocked = self._blocked
        return bool(blocked.rules) and blocked.blocks(
            slot, payload, self.project.request_of
        )

    @cached_property
    def _blocked(self) -> Blocked:
        rules = self._frontier.rules
        return Blocked(rules, lambda request: self.project.key_of(request)[0])

    def _drop(self, change: Change, answer: Answer) -> None:
        """Remove pending requests, slot by slot."""
        answer |= {"dropped": 0, "in_progress": 0}
        selection, pages = selection_of(change), pages_of(change)
        search = Search(pages, self.project) if pages else None
        frontier = self._frontier

        def chosen(found: Iterable[OnRedis]) -> Iterator[tuple[OnRedis, bytes]]:
            for one, payload in _requests(found):
                if is_chosen(one.slot, payload, selection, search):
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
                    answer["dropped"] += frontier.drop(number, removed)
            answer["in_progress"] += sum(1 for _ in chosen(frontier.handed_out(number)))
        answer["left"] = sum(one.pending for one in frontier.states())

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
