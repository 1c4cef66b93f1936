"""RequeuedFailures: failed requests that are pending again, and may be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.leases.failure import Failure
from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.payload import url_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.store.store import Store

__all__ = ["RequeuedFailures"]


class RequeuedFailures:
    """Failed requests that are pending again, as long as they may be removed.

    A retry has different ``meta``, so they are told apart by method and URL.
    """

    def __init__(self, store: Store) -> None:
        self._failures: dict[tuple[str, str], list[tuple[bytes, Failure]]] = {}
        with store.snapshot() as snapshot:
            for digest, data in snapshot.failures():
                one = Failure.unpacked(data)
                if one.waiting and one.payload is not None:
                    same = self._failures.setdefault(_name_of(one.payload), [])
                    same.append((digest, one))

    def removed(self, found: Iterable[PendingRequest]) -> dict[bytes, bytes]:
        """Return the failed requests to store when these requests are removed."""
        puts: dict[bytes, bytes] = {}
        if self._failures:
            for one in found:
                same = self._failures.get(_name_of(one.payload))
                if same:
                    digest, failure = same.pop()
                    puts[digest] = failure._replace(waiting=False).packed()
        return puts


def _name_of(payload: bytes) -> tuple[str, str]:
    try:
        summary = summary_of(payload)
    except UnserializableError:  # a pickle
        return "", url_of(payload)
    return summary.method, summary.url
