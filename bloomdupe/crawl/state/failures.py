"""Failures: the failed requests of a job, part of the checkpoint."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.leases.failure import (
    PAGE_CAME,
    Failure,
    counted_by,
    named,
    stored_failures,
    to_retry,
)
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.state.failure_records import (
    FailureRecords,
    log_failures,
    log_retried,
)
from bloomdupe.printable import logger_of, near
from bloomdupe.store.format import FAILURES
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.requests.serializer import Serializer
    from bloomdupe.crawl.state.rules import RulesInForce
    from bloomdupe.store.store import Store

logger = logger_of(__name__)


class _Known(NamedTuple):
    url: str
    option: str
    times: int


class Failures(Participant):
    """Requests that have failed for good, each until it succeeds; ``limit`` at most.

    Above the limit, the oldest failures are forgotten, and counted in :attr:`left`.
    The URL and two fields of each stay in memory; the store has the rest.

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
        self._records = FailureRecords(serializer, fingerprint)
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
        with self._store.snapshot() as snapshot:
            stored = [*stored_failures(snapshot)]
        stored.sort(key=lambda one: one[1].time)
        for digest, failure in stored:
            self._remember(digest, failure)

    def _retry(
        self,
        reasons: tuple[str, ...],
        push: Callable[[str, int, bytes], object],
        rules: RulesInForce,
    ) -> tuple[int, Counter[str]]:
        """Make the requests pending again that have failed for these reasons.

        Without reasons, these are all download failures. Returns the number of these
        requests, and how many failed for other reasons.

        They stay among the failed requests until they succeed. Requests that are
        pending already, that cannot be stored, or that are blocked are left out.
        """
        retried, other = 0, Counter[str]()
        with self._store.snapshot() as snapshot:
            known = (
                (digest, failure)
                for digest, failure in stored_failures(snapshot)
                if digest in self._known
            )
            for digest, failure in to_retry(known, reasons, other):
                if failure.payload and not rules.drop(failure.slot, failure.url):
                    push(failure.slot, failure.priority, failure.payload)
                    self._fresh[digest] = failure._replace(waiting=True).packed()
                    retried += 1
        return retried, other

    def begin(
        self,
        reasons: tuple[str, ...] | None,
        push: Callable[[str, int, bytes], object],
        rules: RulesInForce,
    ) -> int:
        """Log the number of failed requests, and retry them for ``reasons``.

        Returns the number of retried requests; None as ``reasons`` retries none, ()
        all download failures. ``push`` makes a request of a slot pending with a
        priority, unless one of the ``rules`` keeps it out.
        """
        if not self._known:
            return 0
        if reasons is None:
            code = PAGE_CAME & self.by_reason.keys()
            remedies = [named(code)] if code else []
            if code != self.by_reason.keys():
                those = f"all but {', '.join(sorted(code))}" if code else "them"
                remedies.insert(0, f"BLOOMDUPE_RETRY_FAILED = True retries {those}")
            logger.info(
                "%(failed)s failed so far in this job (%(reasons)s); %(remedies)s",
                {
                    "failed": plural(len(self), "request has", "requests have"),
                    "reasons": counted_by(self.by_reason),
                    "remedies": "; ".join(remedies),
                },
            )
            return 0
        retried, other = self._retry(reasons, push, rules)
        log_retried(retried, len(self), other)
        return retried

    def end(self) -> None:
        """Log the failed requests by reason at the end of a run, if there are any."""
        log_failures(self.by_reason, near(str(self._store.path.parent)))

    def ended(self, lease: Lease) -> None:
        """Record a failure, or forget it because the request has succeeded."""
        if lease.failed is not None:
            self._failed(lease)
        elif lease.request.url in self.urls and not lease.retried:
            self._forget(self._records.key_of(lease.request, lease.first))

    def kept_out(self, request: Request, payload: bytes | None) -> None:
        """Note that a pending request was dropped, which may repeat a failed one."""
        if request.url not in self.urls:
            return
        digest = self._records.key_of(request, payload)
        if digest not in self._known:
            return
        data = self._fresh.get(digest)
        if data is None:
            with self._store.snapshot() as snapshot:
                stored = snapshot.get(FAILURES, digest)
                assert stored is not None  # noqa: S101 - it is known, and not fresh
                data = bytes(stored)
        self._fresh[digest] = Failure.unpacked(data)._replace(waiting=False).packed()

    def _failed(self, lease: Lease) -> None:
        digest = self._records.key_of(lease.request, lease.first)
        before = self._known.get(digest)
        times = 1 if before is None else before.times + 1
        assert lease.failed is not None  # noqa: S101 - the caller has looked
        failure = self._records.of(
            lease.request,
            lease.failed,
            lease.entry.queue.name,
            self._payload(lease),
            times=times,
        )
        self._forget(digest)
        self._gone.pop(digest, None)
        self._remember(digest, failure)
        self._fresh[digest] = failure.packed()
        while len(self._known) > self._limit:
            self._forget(next(iter(self._known)))
            self.left += 1

    def _payload(self, lease: Lease) -> bytes | None:
        """Return the payload of a retry, which continues this request's work."""
        payload = self._records.untried(lease)
        if payload is None:
            return None
        if lease.visit is None:
            return payload
        return self._serializer.with_visit(payload, lease.visit.values)

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
        """Return the part of the next checkpoint."""
        puts, gone = dict(self._fresh), list(self._gone)
        return Part(
            entries={"failures_left": self.left} if self.left else {},
            changes={FAILURES: [*((digest, None) for digest in gone), *puts.items()]},
            done=lambda: self._written(puts, gone),
        )

    def _written(self, puts: dict[bytes, bytes], gone: list[bytes]) -> None:
        for digest, data in puts.items():
            if self._fresh.get(digest) is data:
                del self._fresh[digest]
        for digest in gone:
            self._gone.pop(digest, None)
