"""ChangingOnRedis: makes changes to a shared crawl, also while its workers run."""

from __future__ import annotations

import os
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
from bloomdupe.jobs.job_contract import Made
from bloomdupe.jobs.on_redis.shared_job import project_of_shared_job
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.redis.partition import Offer, SeenMark
from bloomdupe.redis.server import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.settings import Settings

    from bloomdupe.crawl.changes.change import Change
    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.project import Project
    from bloomdupe.redis.frontier_reader import OnRedis

    Answer = dict[str, Any]


class ChangingOnRedis:
    """Makes the changes in the partitions themselves: no worker is asked.

    Close it at the end. Raises the errors of :meth:`OpenFrontier.open`.
    """

    def __init__(self, url: str, settings: Settings | None) -> None:
        self._url = url
        self._settings = settings
        self._frontier = OpenFrontier.open(url)
        self._kinds = {
            "requeue": self._requeue,
            "requeue failed": self._requeue_failed,
            "drop": self._drop,
            "block": self._block,
        }

    def close(self) -> None:
        """Close the connection."""
        self._frontier.close()

    @cached_property
    def project(self) -> Project:
        """The project of the crawl."""
        return project_of_shared_job(self._url, self._settings, None)

    def make(self, change: Change) -> Made:
        """Make a change."""
        self._frontier.imports.check_ended()
        answer: Answer = {}
        self._kinds[change["kind"]](change, answer)
        return Made(answer, taken_up=False)

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
        known = self._frontier.knows(
            [SeenMark(one.slot, one.key, one.exact) for one in asked]
        )
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
        rules = self._frontier.rules
        if not rules:
            return False
        project = self.project
        blocked = Blocked(rules, lambda request: project.key_of(request)[0])
        return blocked.blocks(slot, payload, project.request_of)

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
    return Offer(one.slot, name, payload, one.priority, exact=one.exact)
