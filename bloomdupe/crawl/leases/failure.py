"""Failure: a request that has given up, as it is stored. Knows nothing of Scrapy.

In the table ``failures`` of the store stands one record for each request, under 8
bytes of BLAKE2b of its fingerprint and 8 of its identity (:func:`digest_of`). It is a
msgpack array of the fields of :class:`Failure`, in their order.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgpack  # type: ignore[import-untyped]

from bloomdupe.store.format import DIGEST_BYTES, FAILURES, stored_priority

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping

    from bloomdupe.store.snapshot import Snapshot

PAGE_CAME = frozenset({"callback", "pipeline"})
"""Reasons of failures that lie behind the download."""


def in_words(reason: str, status: int | None) -> str:
    """Return a reason and the status of its response: ``HTTP 404``, ``callback 200``.

    An HTTP status may be a reason of its own.
    """
    if reason == "status":
        return f"HTTP {status}"
    return reason if status is None else f"{reason} {status}"


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
    """Whether it was retried, and is pending or in progress."""
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


Name = TypeVar("Name")


def to_retry(
    failures: Iterable[tuple[Name, Failure]],
    reasons: tuple[str, ...],
    other: Counter[str],
) -> Iterator[tuple[Name, Failure]]:
    """Yield the failed requests to retry for these reasons; () are all downloads.

    Requests that are pending already, or that cannot be stored, are left out; those
    with ``other`` reasons are counted by reason.
    """
    for name, failure in failures:
        if failure.waiting or failure.payload is None:
            continue
        if failure.is_to_retry(reasons):
            yield name, failure
        else:
            other[failure.option] += 1


def digest_of(fingerprint: bytes, identity: bytes | None = None) -> bytes:
    """Return the key under which a failure is stored.

    ``identity`` tells it from others for its page, if there is more to it. Requests of
    one page have the first half in common.
    """
    return _half(fingerprint) + _half(fingerprint if identity is None else identity)


def page_of(digest: bytes) -> bytes:
    """Return the part that the keys of all requests of one page share."""
    return digest[: DIGEST_BYTES // 2]


def _half(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES // 2).digest()


def stored_failures(snapshot: Snapshot) -> Iterator[tuple[bytes, Failure]]:
    """Yield the digest of each request that has failed, and its failure."""
    for digest, data in snapshot.records(FAILURES):
        yield digest, Failure.unpacked(bytes(data))
