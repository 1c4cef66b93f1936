"""Failures: the ledger of requests that have given up, part of the checkpoint."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.engines.part import Part
from bloomdupe.crawl.leases.failure import Failure, digest_of
from bloomdupe.crawl.requests.identity import identity_of
from bloomdupe.crawl.requests.visits import Visit
from bloomdupe.errors import UnserializableError
from bloomdupe.printable import logger_of
from bloomdupe.store.format import FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.crawl.leases.leases import Lease
    from bloomdupe.crawl.requests.serializer import Serializer
    from bloomdupe.crawl.state.blocked import Blocked
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

__all__ = ["Failures"]

logger = logger_of(__name__)


class _Known(NamedTuple):
    url: str
    reason: str
    times: int


class Failures:
    """Requests that have failed for good, each until it succeeds; ``limit`` at most.

    When there are more, those go that have failed longest ago, and are counted in
    :attr:`left`. Requests are told apart by
    fingerprint and identity (:mod:`bloomdupe.crawl.requests.identity`). Of each the
    URL and two fields stay in memory; the store has the rest.

    ``left`` stands in the record ``crawl`` as ``failures_left``, if there are any.
    """

    def __init__(
        self,
        store: Store,
        serializer: Serializer,
        fingerprint: Callable[[Request], bytes],
        limit: int,
    ) -> None:
        self._store = store
        self._serializer = serializer
        self._fingerprint = fingerprint
        self._limit = limit
        self.left = 0
        """How many are not here any more because there were too many."""
        self.urls: Counter[str] = Counter()
        """Of what is in the ledger; whatever else ends need not be looked up."""
        self._known: dict[bytes, _Known] = {}
        """In the order in which they have failed."""
        self._fresh: dict[bytes, bytes] = {}
        self._gone: dict[bytes, None] = {}

    def __len__(self) -> int:
        """Count the requests in the ledger."""
        return len(self._known)

    def take_up(self, left: int) -> None:
        """Go on with what the last checkpoint holds."""
        self.left = left
        if not self._store.totals.get(FAILURES, [0])[0]:
            return
        with self._store.snapshot() as snapshot:
            stored = [
                (digest, Failure.unpacked(data)) for digest, data in snapshot.failures()
            ]
        stored.sort(key=lambda one: one[1].time)
        for digest, failure in stored:
            self._remember(digest, failure)

    def retry(
        self, frontier: Frontier, reasons: tuple[str, ...], blocked: Blocked
    ) -> int:
        """Let those wait again that have failed for these reasons.

        Without any, those whose page has not come.

        They stay in the ledger until they succeed. Returns how many there are; those
        that wait already, that cannot be stored or are blocked are not among them.
        """
        retried = 0
        with self._store.snapshot() as snapshot:
            for digest, data in snapshot.failures():
                failure = Failure.unpacked(data)
                if failure.waiting or failure.payload is None:
                    continue
                if not failure.is_to_retry(reasons) or self._is_blocked(
                    failure, blocked
                ):
                    continue
                if digest in self._known:
                    frontier.push(failure.slot, failure.priority, failure.payload)
                    self._fresh[digest] = failure._replace(waiting=True).packed()
                    retried += 1
        return retried

    def _is_blocked(self, failure: Failure, blocked: Blocked) -> bool:
        if not blocked.rules or failure.payload is None:
            return False
        try:
            request = self._serializer.load(failure.payload)
            return blocked.drops(request, failure.slot)
        except UnserializableError:
            return False  # whoever takes it up says so

    def begin(
        self, frontier: Frontier, reasons: tuple[str, ...] | None, blocked: Blocked
    ) -> int:
        """Say how many have failed so far, and let those wait again that are asked for.

        Returns how many these are; None asks for none, see :meth:`retry`.
        """
        if not self._known:
            return 0
        if reasons is None:
            logger.info(
                "%(failed)d requests of this job have failed so far;"
                " BLOOMDUPE_RETRY_FAILED = True takes them up again",
                {"failed": len(self)},
            )
            return 0
        retried = self.retry(frontier, reasons, blocked)
        logger.info(
            "%(retried)d of the %(failed)d requests that have failed so far are taken"
            " up again",
            {"retried": retried, "failed": len(self)},
        )
        return retried

    def end(self) -> None:
        """Say at the end of a run what is in the ledger, if anything is."""
        reasons = Counter(known.reason for known in self._known.values())
        if reasons:
            logger.info(
                "%(failed)d requests have failed and not succeeded since (%(reasons)s):"
                " `bloomdupe list %(job)s --failed` names them",
                {
                    "failed": len(self),
                    "reasons": ", ".join(
                        f"{n} {why}" for why, n in reasons.most_common()
                    ),
                    "job": self._store.path.parent,
                },
            )

    def ended(self, lease: Lease) -> None:
        """Take note that a request is done, and how."""
        request = lease.request
        if lease.failed is not None:
            self._failed(lease)
        elif request.url in self.urls and not lease.retried:
            self._forget(self._digest(request))

    def _failed(self, lease: Lease) -> None:
        assert lease.failed is not None  # noqa: S101 - the caller has looked
        request = lease.request
        digest = self._digest(request)
        before = self._known.get(digest)
        referer = request.headers.get("Referer")
        failure = Failure(
            request.url,
            *lease.failed,
            times=1 if before is None else before.times + 1,
            time=round(time.time(), 3),
            parent=None if referer is None else referer.decode("latin-1"),
            waiting=False,
            slot=lease.entry.queue.name,
            priority=request.priority,
            payload=self._payload(lease),
        )
        self._forget(digest)
        self._gone.pop(digest, None)
        self._remember(digest, failure)
        self._fresh[digest] = failure.packed()
        while len(self._known) > self._limit:
            self._forget(next(iter(self._known)))
            self.left += 1

    def _digest(self, request: Request) -> bytes:
        fingerprint = self._fingerprint(request)
        # What it was sent with by others, a proxy above all, may be something else in
        # the next run.
        return digest_of(fingerprint, identity_of(request, fingerprint, request))

    def _payload(self, lease: Lease) -> bytes | None:
        """Return what is taken up again: it goes on with what this one has left."""
        payload = self._untried(lease)
        if payload is None or lease.comes_again:
            return None  # a second one would double the page's visits
        visit = lease.visit
        if lease.leases.owes(lease):
            visit = replace(visit or Visit(), stands_for=lease.leases.bequeath(lease))
        if visit is None:
            return payload
        return self._serializer.with_visit(payload, visit.values)

    def _untried(self, lease: Lease) -> bytes | None:
        """Return the request as the scheduler had it, but with all its retries."""
        payload = lease.entry.payload
        if payload is None or "retry_times" not in lease.request.meta:
            return payload
        try:
            request = self._serializer.load(payload)
            request.meta.pop("retry_times", None)
            return self._serializer.dump(request)
        except UnserializableError:
            return payload

    def _remember(self, digest: bytes, failure: Failure) -> None:
        self._known[digest] = _Known(failure.url, failure.reason, failure.times)
        self.urls[failure.url] += 1

    def _forget(self, digest: bytes) -> None:
        known = self._known.pop(digest, None)
        if known is None:
            return
        self.urls[known.url] -= 1
        if not self.urls[known.url]:
            del self.urls[known.url]
        self._fresh.pop(digest, None)
        self._gone[digest] = None

    # The checkpoint

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._fresh or self._gone)

    def prepare(self) -> Part:
        """Work out what the next checkpoint writes into the record ``crawl``."""
        return Part({"failures_left": self.left} if self.left else {})

    def change(self) -> _Change:
        """Work out what it writes into the ledger, which is made if there is none."""
        if self._fresh:
            self._store.make_room_for(FAILURES)
        return _Change(self, dict(self._fresh), list(self._gone))

    def _written(self, puts: dict[bytes, bytes], gone: list[bytes]) -> None:
        for digest, data in puts.items():
            if self._fresh.get(digest) is data:
                del self._fresh[digest]
        for digest in gone:
            self._gone.pop(digest, None)


class _Change(NamedTuple):
    """The ledger's part of a transaction (a :class:`bloomdupe.store.store.Change`)."""

    failures: Failures
    puts: dict[bytes, bytes]
    gone: list[bytes]

    def write(self, batch: Batch) -> None:
        """Put it into the transaction."""
        batch.delete_failures(self.gone)
        batch.put_failures(self.puts)

    def done(self) -> None:
        """Take note that it is durable."""
        self.failures._written(self.puts, self.gone)
