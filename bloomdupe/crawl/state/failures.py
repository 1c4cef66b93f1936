"""Failures: the failed requests of a job, part of the checkpoint."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.leases.failure import PAGE_CAME, Failure, digest_of
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.requests.identity import identity_of
from bloomdupe.crawl.requests.visits import Visit
from bloomdupe.errors import UnserializableError
from bloomdupe.printable import logger_of
from bloomdupe.store.format import FAILURES
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy import Request

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.requests.serializer import Serializer
    from bloomdupe.crawl.state.blocked import Blocked
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

__all__ = ["Failures"]

logger = logger_of(__name__)


class Retried(NamedTuple):
    """The result of a retry."""

    requests: int
    other: Counter[str]
    """Requests that failed for other reasons than those to retry."""


def counted_by(reasons: Mapping[str, int]) -> str:
    """Return numbers by reason in words, the largest first."""
    most = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{requests} {why}" for why, requests in most)


def named(reasons: Iterable[str]) -> str:
    """Return which option retries these reasons, and the price of that."""
    reasons = sorted(reasons)
    text = f"-s BLOOMDUPE_RETRY_FAILED={','.join(reasons)} retries these"
    if not PAGE_CAME.isdisjoint(reasons):
        text += ", and items that their pages have yielded before come twice"
    return text


class _Known(NamedTuple):
    url: str
    option: str
    times: int


class Failures(Participant):
    """Requests that have failed for good, each until it succeeds; ``limit`` at most.

    Above the limit, the oldest failures are forgotten, and counted in :attr:`left`.
    Requests are told apart by fingerprint and identity
    (:mod:`bloomdupe.crawl.requests.identity`). The URL and two fields of each stay in
    memory; the store has the rest.

    The record ``crawl`` holds ``left`` as ``failures_left``, unless it is 0.
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
        """Number of failures that were forgotten because of the limit."""
        self.urls: Counter[str] = Counter()
        """URLs of the failed requests: a request with a different URL need not be
        looked up.
        """
        self._options: Counter[str] = Counter()
        self._known: dict[bytes, _Known] = {}
        """In the order of their failures."""
        self._fresh: dict[bytes, bytes] = {}
        self._gone: dict[bytes, None] = {}

    def __len__(self) -> int:
        """Return the number of failed requests."""
        return len(self._known)

    @property
    def by_reason(self) -> dict[str, int]:
        """Number of failed requests by reason, the largest first.

        An HTTP status is a reason, as in ``BLOOMDUPE_RETRY_FAILED``.
        """
        return {why: count for why, count in self._options.most_common() if count}

    def restore(self, left: int) -> None:
        """Restore the failed requests of the last checkpoint."""
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
    ) -> Retried:
        """Make the requests pending again that have failed for these reasons.

        Without reasons, these are all download failures.

        They stay among the failed requests until they succeed. Requests that are
        pending already, that cannot be stored, or that are blocked are left out.
        """
        retried, other = 0, Counter[str]()
        with self._store.snapshot() as snapshot:
            for digest, data in snapshot.failures():
                failure = Failure.unpacked(data)
                if failure.waiting or failure.payload is None:
                    continue
                if not failure.is_to_retry(reasons):
                    other[failure.option] += 1
                    continue
                if self._is_blocked(failure, blocked):
                    continue
                if digest in self._known:
                    frontier.push(failure.slot, failure.priority, failure.payload)
                    self._fresh[digest] = failure._replace(waiting=True).packed()
                    retried += 1
        return Retried(retried, other)

    def _is_blocked(self, failure: Failure, blocked: Blocked) -> bool:
        if not blocked.rules or failure.payload is None:
            return False
        try:
            request = self._serializer.load(failure.payload)
            return blocked.drops(request, failure.slot)
        except UnserializableError:
            return False  # the scheduler reports it when it reads it

    def begin(
        self, frontier: Frontier, reasons: tuple[str, ...] | None, blocked: Blocked
    ) -> int:
        """Log the number of failed requests, and retry them for ``reasons``.

        Returns the number of retried requests; None as ``reasons`` retries none, see
        :meth:`retry`.
        """
        if not self._known:
            return 0
        if reasons is None:
            code = PAGE_CAME & self.by_reason.keys()
            logger.info(
                "%(failed)d requests of this job have failed so far (%(reasons)s);"
                " BLOOMDUPE_RETRY_FAILED = True retries %(those)s",
                {
                    "failed": len(self),
                    "reasons": counted_by(self.by_reason),
                    "those": (
                        f"all but {', '.join(sorted(code))}: {named(code)}"
                        if code
                        else "them"
                    ),
                },
            )
            return 0
        retried, other = self.retry(frontier, reasons, blocked)
        line = "%(retried)d of the %(failed)d requests that have failed so far are"
        figures = {"retried": retried, "failed": len(self)}
        if not other:
            logger.info(f"{line} retried", figures)  # noqa: G004
            return retried
        logger.info(
            f"{line} retried. Not retried: %(other)s; %(named)s",  # noqa: G004
            figures | {"other": counted_by(other), "named": named(other)},
        )
        return retried

    def end(self) -> None:
        """Log the failed requests by reason at the end of a run, if there are any."""
        reasons = self.by_reason
        if reasons:
            logger.info(
                "%(failed)s failed and not succeeded since (%(reasons)s): `bloomdupe"
                " list %(job)s --failed` names them",
                {
                    "failed": f"{plural(len(self), 'request')}"
                    f" {'has' if len(self) == 1 else 'have'}",
                    "reasons": counted_by(reasons),
                    "job": self._store.path.parent,
                },
            )

    def ended(self, lease: Lease) -> None:
        """Record a failure, or forget it because the request has succeeded."""
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
        # Settings of middlewares, such as a proxy, may differ in the next run, so they
        # must not be part of the digest.
        return digest_of(fingerprint, identity_of(request, fingerprint, request))

    def _payload(self, lease: Lease) -> bytes | None:
        """Return the payload of a retry, which continues this request's work."""
        payload = self._untried(lease)
        if payload is None or lease.comes_again:
            return None  # a second copy would double the page's visits
        visit = lease.visit
        if lease.leases.engine.owes(lease):
            visit = replace(visit or Visit(), name=lease.pass_on())
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
        self._known[digest] = _Known(failure.url, failure.option, failure.times)
        self.urls[failure.url] += 1
        self._options[failure.option] += 1

    def _forget(self, digest: bytes) -> None:
        known = self._known.pop(digest, None)
        if known is None:
            return
        self._options[known.option] -= 1
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
        """Return the part of the next checkpoint; create the database if needed."""
        if self._fresh:
            self._store.make_room_for(FAILURES)
        puts, gone = dict(self._fresh), list(self._gone)

        def write(batch: Batch) -> None:
            batch.delete_failures(gone)
            batch.put_failures(puts)

        return Part(
            entries={"failures_left": self.left} if self.left else {},
            write=write,
            done=lambda: self._written(puts, gone),
        )

    def _written(self, puts: dict[bytes, bytes], gone: list[bytes]) -> None:
        for digest, data in puts.items():
            if self._fresh.get(digest) is data:
                del self._fresh[digest]
        for digest in gone:
            self._gone.pop(digest, None)
