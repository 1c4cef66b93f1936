"""Failures: the failed requests of a job, part of the checkpoint."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.printable import logger_of
from bloomdupe.requests.layout import Visit, fields_of
from bloomdupe.store.format import DIGEST_BYTES, FAILURES, stored_priority
from bloomdupe.store.store import Part, Participant, Unwritten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request

    from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
    from bloomdupe.crawl.in_flight.request import FailureReason, InFlightRequest
    from bloomdupe.frontier.partition import Partition
    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Store


logger = logger_of(__name__)

BY_SCRAPY = (
    "_auth_proxy", "depth", "download_latency", "download_slot", "download_timeout",
    "is_start_request", "proxy", "redirect_reasons", "redirect_times", "redirect_ttl",
    "redirect_urls", "retry_times",
)  # fmt: skip
"""Keys of ``meta`` that Scrapy sets on the way; they may differ in the next run."""


class Failures(Participant):
    """Requests that have failed for good, each until it succeeds.

    They are in the store of their slot, or in any other store if the partition of the
    slot is not here. A store has ``BLOOMDUPE_MAX_FAILURES`` at most; a crawl in memory
    keeps none. Above that number, the oldest are forgotten, and counted in
    :attr:`left`. Requests are distinguished by fingerprint, and by their payloads
    before the first try. Headers do not count, nor do the keys of :data:`BY_SCRAPY`. A
    failed request that is pending again carries its key in its payload, and so do its
    retries: a kill between two tries does not make it another request.

    The record ``crawl`` holds ``left`` as ``failures_left``, unless it is 0.
    """

    def __init__(self, engine: CrawlEngine) -> None:
        session = engine.session
        self._engine = engine
        self._stats = session.stats
        self._serializer = session.serializer
        self._fingerprint = session.fingerprint
        self._limit = session.settings.max_failures if engine.durable else 0
        self._begun = time.time()
        self.left = 0
        """Failures that were forgotten because of the limit, as far as the record
        says in which the next checkpoint counts them."""
        self._ledgers: dict[Partition, Ledger] = {}
        self._read: dict[Store | None, Ledger] = {}
        """Of partitions that are here soon."""
        self._later: dict[bytes, list[tuple[Ledger, bytes]]] = {}
        """Failed start requests that ``start()`` may yield anew, by their pages."""

    @property
    def _here(self) -> dict[Partition, Ledger]:
        """The failures in the store of each partition that is here."""
        here = self._engine.frontier.partitions.values() if self._limit else ()
        # It is asked for each page that ends, and partitions seldom come and go. When
        # the run has failed, their stores may not answer any more.
        known, session = self._ledgers, self._engine.session
        if [*known] != [*here] and session.stopping.failure is None:
            self._ledgers = {one: known.get(one) or self._of_new(one) for one in here}
        return self._ledgers

    def _of_new(self, partition: Partition) -> Ledger:
        return self._read.pop(partition.store, None) or Ledger(partition.store)

    def read(self, store: Store) -> None:
        """Read the failures of a partition that is here soon, on any thread."""
        if self._limit:
            self._read[store] = Ledger(store)

    def _of(self, slot: str) -> Ledger:
        frontier, here = self._engine.frontier, self._here
        partition = frontier.partitions.get(frontier.number_of(slot))
        return here[partition] if partition in here else next(iter(here.values()))

    def __len__(self) -> int:
        """Return the number of failed requests."""
        return sum(len(ledger.known) for ledger in self._here.values())

    @property
    def by_reason(self) -> Counter[str]:
        """Number of failed requests by reason.

        An HTTP status is a reason, as in ``BLOOMDUPE_RETRY_FAILED``.
        """
        known = (ledger.known.values() for ledger in self._here.values())
        return Counter(one.option for one in chain.from_iterable(known))

    # A run

    def retry(self) -> None:
        """Retry what has failed in earlier runs, of stores that have come since.

        Requests that are pending already, that cannot be stored, or that a rule keeps
        out are left out. All stay among the failed requests until they succeed. Start
        requests wait until ``start()`` has ended, if it yields them anew.
        """
        engine, reasons = self._engine, self._engine.settings.retry_failed
        anew = engine.starting.begins_anew
        retried, has_new = 0, False
        for ledger in self._here.values():
            if ledger.retried:
                continue
            ledger.retried = True
            has_new = has_new or bool(ledger.known)
            for digest, one in (
                [*ledger.known.items()] if anew or reasons is not None else ()
            ):
                if one.time >= self._begun or not one.payload:
                    continue
                if anew and _is_start(ledger.read(digest).payload or b""):
                    self._later.setdefault(page_of(digest), []).append((ledger, digest))
                else:
                    retried += self._retry(ledger, digest, one)
        if self._limit:
            self._stats.inc_value("bloomdupe/retried_failures", retried)
        if has_new:
            logger.info(
                "%(failed)s failed so far in this job (%(reasons)s); retried:"
                " %(retried)d. BLOOMDUPE_RETRY_FAILED says which",
                {
                    "failed": plural(len(self), "request has", "requests have"),
                    "reasons": self._counts,
                    "retried": retried,
                },
            )

    def _retry(self, ledger: Ledger, digest: bytes, one: Failure) -> bool:
        """Make a failed request pending again if it is to be retried; whether it is."""
        engine, reasons = self._engine, self._engine.settings.retry_failed
        retries = (
            reasons is not None
            and not one.waiting
            and one.is_to_retry(reasons)
            and not engine.rules.drop(one.slot, one.url)
        )
        if retries:
            ledger.take_up(digest, engine.push_failed)
        return retries

    def start_yields(self, request: Request) -> None:
        """Forget the failures of a start request that ``start()`` yields anew."""
        if self._later:
            page = page_of(digest_of(self._fingerprint(request)))
            for ledger, digest in self._later.pop(page, ()):
                ledger.forget(digest)

    def start_ended(self) -> None:
        """Retry failed start requests that ``start()`` has not yielded.

        These are links with a copy of the ``meta`` of a start request, and requests
        that an earlier ``start()`` has yielded.
        """
        later, self._later = self._later, {}
        for ledger, digest in chain.from_iterable(later.values()):
            if ledger in self._here.values() and digest in ledger.known:
                self._retry(ledger, digest, ledger.known[digest])

    @property
    def _counts(self) -> str:
        reasons = self.by_reason.most_common()
        return ", ".join(f"{many} {why}" for why, many in reasons)

    def end(self) -> None:
        """Log the failed requests by reason at the end of a run, if there are any."""
        if self._limit:
            self._stats.set_value("bloomdupe/failed", len(self))
        if len(self):
            logger.info(
                "%(failed)s failed and not succeeded since (%(reasons)s):"
                " `bloomdupe list %(job)s --failed` names them",
                {
                    "failed": plural(len(self), "request has", "requests have"),
                    "reasons": self._counts,
                    "job": self._engine.shown,
                },
            )

    # Requests that end

    def ended(self, in_flight: InFlightRequest) -> None:
        """Record a failure, or forget it because the request has succeeded."""
        if not self._limit:
            return
        ledger = self._of(in_flight.entry.queue.name)
        if in_flight.failed is not None:
            self._failed(ledger, in_flight, in_flight.failed)
        elif in_flight.request.url in ledger.urls and not in_flight.retried:
            ledger.forget(self._key_of(ledger, in_flight))

    def repeated_by(self, request: Request, work: InFlightRequest) -> bytes | None:
        """Note that a request repeats the request of ``work``, which fails now.

        Returns the key of the failure, or None if the request is for another page.
        """
        if not self._limit or not work.first:
            return None
        if self._fingerprint(request) != self._fingerprint(work.request):
            return None
        work.retried = True
        return self._key_of(self._of(work.entry.queue.name), work)

    def kept_out(self, slot: str, payload: bytes) -> None:
        """Note that a pending request of a slot was dropped."""
        if self._limit:
            self._of(slot).dropped(payload)

    def _failed(
        self, ledger: Ledger, in_flight: InFlightRequest, reason: FailureReason
    ) -> None:
        request = in_flight.request
        digest = self._key_of(ledger, in_flight)
        before = ledger.read(digest) if digest in ledger.known else None
        referer = request.headers.get("Referer")
        failure = Failure(
            request.url,
            *reason,
            times=1 if before is None else before.times + 1,
            time=round(time.time(), 3),
            parent=None if referer is None else referer.decode("latin-1"),
            waiting=in_flight.retried,
            slot=in_flight.entry.queue.name,
            priority=request.priority,
            payload=self._payload(in_flight) if before is None else before.payload,
        )
        ledger.forget(digest)
        ledger.put(digest, failure)
        while len(ledger.known) > self._limit:
            ledger.forget(next(iter(ledger.known)))
            self.left += 1

    def _key_of(self, ledger: Ledger, in_flight: InFlightRequest) -> bytes:
        """Return the key under which a request has failed before, or fails now."""
        if (carried := in_flight.visit.failure) in ledger.known:
            return carried
        fingerprint = self._fingerprint(in_flight.request)
        if not in_flight.first:
            return digest_of(fingerprint)
        request = self._serializer.load(in_flight.first)
        request.headers.clear()
        for name in BY_SCRAPY:
            request.meta.pop(name, None)
        request.dont_filter, request.priority = False, 0
        return digest_of(fingerprint, self._serializer.dump(request))

    def _payload(self, in_flight: InFlightRequest) -> bytes | None:
        """Return the request as the scheduler had it, but with all its retries.

        None if a second copy would double its visits, or if it could not be stored.
        """
        payload = in_flight.first
        if in_flight.is_revisited or not payload:
            return None
        request = self._serializer.load(payload)
        if request.meta.pop("retry_times", None) is not None:
            payload = self._serializer.dump(request)
        visit = in_flight.visit
        return payload if visit == Visit() else visit.added_to(payload)

    # The checkpoint

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return any(ledger.changes for ledger in self._here.values())

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        here, partitions = self._here, self._engine.frontier.partitions.items()
        return Part(
            entries={"failures_left": self.left} if self.left else {},
            partitions={
                number: here[one].changes.part()
                for number, one in partitions
                if one in here and here[one].changes
            },
        )


class Ledger:
    """The failed requests in the store of a partition.

    They are in memory, too, but for payloads of more than ``SMALL`` bytes.
    """

    def __init__(self, store: Store | None) -> None:
        assert store is not None  # noqa: S101 - or nothing is kept
        self._store = store
        stored = sorted(stored_failures(store.now), key=lambda one: one[1].time)
        self.known = {digest: _in_memory(failure) for digest, failure in stored}
        """In the order of their failures; see :meth:`read` for their payloads."""
        self.urls = Counter(failure.url for failure in self.known.values())
        """URLs of the failed requests: a request with a different URL need not be
        looked up.
        """
        self.retried = False
        """Whether those of earlier runs were retried in this run."""
        self.changes = Unwritten(FAILURES)

    def read(self, digest: bytes) -> Failure:
        """Return a known failure, with its payload."""
        if self.known[digest].payload is not ELSEWHERE:
            return self.known[digest]
        data = self.changes.get(digest) or self._store.now.get(FAILURES, digest)
        assert data is not None  # noqa: S101 - it is known
        return Failure.unpacked(bytes(data))

    def put(self, digest: bytes, failure: Failure) -> None:
        """Let the next checkpoint write a failure; a new one is counted."""
        self.changes[digest] = failure.packed()
        self.urls[failure.url] += digest not in self.known
        self.known[digest] = _in_memory(failure)

    def take_up(self, digest: bytes, push: Callable[[SentRequest], object]) -> None:
        """Make a failed request, which could be stored, pending again."""
        one = self.read(digest)
        payload = repeated(digest, one)
        push(SentRequest(one.slot, one.priority, payload, dont_filter=True))
        self.put(digest, one._replace(waiting=True))

    def dropped(self, payload: bytes) -> None:
        """Note that a pending request was dropped; it may repeat a failed one."""
        digest = Visit.of(payload).failure
        if digest in self.known:
            self.put(digest, self.read(digest)._replace(waiting=False))

    def forget(self, digest: bytes) -> None:
        """Remove a failure, if it is known."""
        known = self.known.pop(digest, None)
        if known is None:
            return
        self.urls[known.url] -= 1
        if not self.urls[known.url]:
            del self.urls[known.url]
        self.changes[digest] = None


SMALL = 4_096
"""Bytes of a payload that stays in memory."""
ELSEWHERE = b"\xc1"
"""Stands for a payload that is in the store; msgpack has no such byte."""
PAGE_CAME = frozenset({"callback", "pipeline"})
"""Reasons of failures that lie behind the download."""


class Failure(NamedTuple):
    """A request that has given up."""

    url: str
    reason: str
    status: int | None
    detail: str
    times: int
    """Number of times it has given up, over all runs, without Scrapy's retries."""
    time: float
    """Unix time of the last failure."""
    parent: str | None
    """URL of the page that has led to it, as its header Referer says."""
    waiting: bool
    """Whether it was retried, and is pending or in flight."""
    slot: str
    priority: int
    payload: bytes | None
    """The request as :mod:`bloomdupe.requests.serializer` wrote it. None if it
    could not be stored: such a request cannot be retried."""

    @classmethod
    def unpacked(cls, data: bytes) -> Failure:
        """Read the bytes that :meth:`packed` has made."""
        fields: list[Any] = msgpack.unpackb(data, unicode_errors="surrogatepass")
        return cls(*fields)

    @property
    def cause(self) -> str:
        """The reason, or the HTTP status, which is a reason of its own."""
        return f"HTTP {self.status}" if self.reason == "status" else self.reason

    @property
    def in_words(self) -> str:
        """The cause, and the status of the response: ``HTTP 404``, ``callback 200``."""
        has_status = self.reason != "status" and self.status is not None
        return f"{self.cause} {self.status}" if has_status else self.cause

    @property
    def option(self) -> str:
        """The reason as ``BLOOMDUPE_RETRY_FAILED`` names it."""
        return str(self.status) if self.reason == "status" else self.reason

    @property
    def exception(self) -> str:
        """The name of the exception; empty if it is an HTTP status."""
        return "" if self.reason == "status" else self.detail.partition(":")[0]

    def packed(self) -> bytes:
        """Return the record of the store."""
        kept = self._replace(priority=stored_priority(self.priority))
        packed: bytes = msgpack.packb(list(kept), unicode_errors="surrogatepass")
        return packed

    def is_to_retry(self, reasons: tuple[str, ...]) -> bool:
        """Whether a retry for these reasons includes it; () are all download failures.

        A request that failed in project code has items in the output already, which
        would come once more. So such reasons must be asked for by name.
        """
        if not reasons and self.reason in PAGE_CAME:
            return False
        return self.is_for(reasons)

    def is_for(self, reasons: tuple[str, ...]) -> bool:
        """Whether it is among these: reasons, or statuses as texts; () are all."""
        return not reasons or self.reason in reasons or str(self.status) in reasons


def _in_memory(failure: Failure) -> Failure:
    large = failure.payload is not None and len(failure.payload) > SMALL
    return failure._replace(payload=ELSEWHERE) if large else failure


def digest_of(fingerprint: bytes, identity: bytes | None = None) -> bytes:
    """Return the key under which a failure is stored.

    ``identity`` distinguishes it from other requests for its page, if there are any.
    Requests of one page have the first half in common.
    """
    return _half(fingerprint) + _half(fingerprint if identity is None else identity)


def _is_start(payload: bytes) -> bool:
    """Whether a stored request is a start request."""
    meta = _fields(payload).get("meta")
    return isinstance(meta, dict) and bool(meta.get("is_start_request"))


def callback_of(payload: bytes) -> object:
    """Return what a stored request has for its callback."""
    return _fields(payload).get("callback")


def repeated(digest: bytes, failure: Failure) -> bytes:
    """Return a failed request, which could be stored, as it becomes pending again."""
    payload = failure.payload or b""
    visit = replace(Visit.of(payload), failure=digest)
    try:
        return visit.added_to(payload)
    except (UnserializableError, TypeError):  # it is damaged, as the crawl will say
        return payload


def _fields(payload: bytes) -> dict[str, Any]:
    """Return the fields of a stored request; none if it is damaged."""
    try:
        return fields_of(payload)
    except UnserializableError:
        return {}


def page_of(digest: bytes) -> bytes:
    """Return the part that the keys of all requests of one page share."""
    return digest[: DIGEST_BYTES // 2]


def _half(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES // 2).digest()


def stored_failures(snapshot: Snapshot) -> Iterator[tuple[bytes, Failure]]:
    """Yield the digest of each request that has failed, and its failure."""
    for digest, data in snapshot.records(FAILURES):
        yield digest, Failure.unpacked(bytes(data))
