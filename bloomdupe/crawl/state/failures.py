"""Failures: the failed requests of a job, part of the checkpoint."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.leases.failure import (
    PAGE_CAME,
    Failure,
    counted_by,
    digest_of,
    named,
    stored_failures,
    to_retry,
)
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.printable import logger_of, near
from bloomdupe.store.format import FAILURES
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Request

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.reasons import FailureReason
    from bloomdupe.crawl.state.rules import RulesInForce
    from bloomdupe.requests.serializer import Serializer
    from bloomdupe.store.store import Store

logger = logger_of(__name__)

BY_SCRAPY = (
    "depth", "download_latency", "is_start_request", "redirect_reasons",
    "redirect_times", "redirect_ttl", "redirect_urls", "retry_times",
)  # fmt: skip
"""Keys of ``meta`` that Scrapy sets on the way; they may differ in the next run."""


class _Known(NamedTuple):
    url: str
    option: str
    times: int


class Failures(Participant):
    """Requests that have failed for good, each until it succeeds; ``limit`` at most.

    Above the limit, the oldest failures are forgotten, and counted in :attr:`left`.
    The URL and two fields of each stay in memory; the store has the rest. Requests are
    told apart by fingerprint, and by their payloads before the first try.

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
        self._changes: dict[bytes, bytes | None] = {}
        """Records for the next checkpoint; None: there is none any more."""

    def __len__(self) -> int:
        """Return the number of failed requests."""
        return len(self._known)

    @property
    def by_reason(self) -> dict[str, int]:
        """Number of failed requests by reason, the largest first.

        An HTTP status is a reason, as in ``BLOOMDUPE_RETRY_FAILED``.
        """
        return {why: count for why, count in self._options.most_common() if count}

    # A run

    def restore(self, left: int) -> None:
        """Restore the failed requests of the last checkpoint."""
        self.left = left
        for forgotten in (self.urls, self._options, self._known, self._changes):
            forgotten.clear()
        with self._store.snapshot() as snapshot:
            stored = sorted(stored_failures(snapshot), key=lambda one: one[1].time)
        for digest, failure in stored:
            self._remember(digest, failure)

    def begin(
        self,
        reasons: tuple[str, ...] | None,
        push: Callable[[str, int, bytes], object],
        rules: RulesInForce,
    ) -> int:
        """Log the number of failed requests, and retry them for ``reasons``.

        Returns the number of retried requests; None as ``reasons`` retries none, ()
        all download failures. ``push`` makes a request of a slot pending with a
        priority. Requests that are pending already, that cannot be stored, or that one
        of the ``rules`` keeps out are left out. All stay among the failed requests
        until they succeed.
        """
        if not self._known:
            return 0
        if reasons is None:
            self._say_failed()
            return 0
        retried, other = 0, Counter[str]()
        with self._store.snapshot() as snapshot:
            for digest, failure in to_retry(stored_failures(snapshot), reasons, other):
                if failure.payload and not rules.drop(failure.slot, failure.url):
                    push(failure.slot, failure.priority, failure.payload)
                    self._changes[digest] = failure._replace(waiting=True).packed()
                    retried += 1
        log_retried(retried, len(self), other)
        return retried

    def _say_failed(self) -> None:
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

    def end(self) -> None:
        """Log the failed requests by reason at the end of a run, if there are any."""
        log_failures(self.by_reason, near(str(self._store.path.parent)))

    # Requests that end

    def ended(self, lease: Lease) -> None:
        """Record a failure, or forget it because the request has succeeded."""
        if lease.failed is not None:
            self._failed(lease, lease.failed)
        elif lease.request.url in self.urls and not lease.retried:
            self._forget(self._key_of(lease.request, lease.first))

    def kept_out(
        self,
        slot: str,  # noqa: ARG002
        request: Request,
        payload: bytes | None,
    ) -> None:
        """Note that a pending request of a slot was dropped.

        It may repeat a failed one.
        """
        if request.url not in self.urls:
            return
        digest = self._key_of(request, payload)
        if digest not in self._known:
            return
        data = self._changes.get(digest)
        if data is None:
            with self._store.snapshot() as snapshot:
                stored = snapshot.get(FAILURES, digest)
                assert stored is not None  # noqa: S101 - it is known, and not changed
                data = bytes(stored)
        failure = Failure.unpacked(data)
        self._changes[digest] = failure._replace(waiting=False).packed()

    def _failed(self, lease: Lease, reason: FailureReason) -> None:
        digest = self._key_of(lease.request, lease.first)
        before = self._known.get(digest)
        times = 1 if before is None else before.times + 1
        slot, payload = lease.entry.queue.name, self._payload(lease)
        failure = failure_of(lease.request, reason, slot, payload, times=times)
        self._forget(digest)
        self._remember(digest, failure)
        self._changes[digest] = failure.packed()
        while len(self._known) > self._limit:
            self._forget(next(iter(self._known)))
            self.left += 1

    def _key_of(self, request: Request, first: bytes | None) -> bytes:
        """Return the key of a request; ``first``: its payload before the first try."""
        fingerprint = self._fingerprint(request)
        if not first:
            return digest_of(fingerprint)
        request = self._serializer.load(first)
        request.headers.pop("Referer", None)
        for name in BY_SCRAPY:
            request.meta.pop(name, None)
        request.dont_filter, request.priority = False, 0
        return digest_of(fingerprint, self._serializer.dump(request))

    def _payload(self, lease: Lease) -> bytes | None:
        """Return the request as the scheduler had it, but with all its retries.

        None if a second copy would double its visits, or if it could not be stored.
        """
        payload = lease.first
        if lease.comes_again or not payload:
            return None
        request = self._serializer.load(payload)
        if request.meta.pop("retry_times", None) is not None:
            payload = self._serializer.dump(request)
        if lease.visit is None:
            return payload
        return lease.visit.added_to(payload)

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
        self._changes[digest] = None

    # The checkpoint

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._changes)

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        changes = dict(self._changes)

        def done() -> None:
            for digest, data in changes.items():
                if self._changes[digest] is data:
                    del self._changes[digest]

        return Part(
            entries={"failures_left": self.left} if self.left else {},
            changes={FAILURES: [*changes.items()]},
            done=done,
        )


def failure_of(
    request: Request,
    reason: FailureReason,
    slot: str,
    payload: bytes | None,
    *,
    times: int = 1,
) -> Failure:
    """Return the record of a request that has failed; ``payload`` repeats it."""
    referer = request.headers.get("Referer")
    return Failure(
        request.url,
        *reason,
        times=times,
        time=round(time.time(), 3),
        parent=None if referer is None else referer.decode("latin-1"),
        waiting=False,
        slot=slot,
        priority=request.priority,
        payload=payload,
    )


def log_failures(reasons: Mapping[str, int], job: object) -> None:
    """Log the number of failed requests at the end of a run, if there are any."""
    if reasons:
        logger.info(
            "%(failed)s failed and not succeeded since (%(reasons)s):"
            " `bloomdupe list %(job)s --failed` names them",
            {
                "failed": plural(sum(reasons.values()), "request has", "requests have"),
                "reasons": counted_by(reasons),
                "job": job,
            },
        )


def log_retried(retried: int, failed: int, other: Mapping[str, int]) -> None:
    """Log how many failed requests are retried; the ``other`` are not, by reason."""
    rest = f". Not retried: {counted_by(other)}; {named(other)}" if other else ""
    logger.info(
        "Retried: %(retried)d of %(failed)s%(rest)s",
        {"retried": retried, "failed": plural(failed, "failed request"), "rest": rest},
    )
