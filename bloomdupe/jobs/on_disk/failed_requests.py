"""Failed requests: reads the records of a job, and changes them.

Nothing here needs Scrapy, which most verbs need not load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.leases.failure import Failure, digest_of, page_of
from bloomdupe.store.participant import Part
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bloomdupe.crawl.changes.selection import Selection

__all__ = ["failed_requests", "failures_of", "failures_part"]


def failed_requests(
    path: Path, selection: Selection, reasons: tuple[str, ...]
) -> list[Failure]:
    """Return the requests that failed for these reasons (() are all), newest first.

    A crawl may be running. Requests that were retried since are not among them.
    """
    store = Store.open(path, readonly=True, network=True)
    try:
        with store.snapshot() as snapshot:
            found = [Failure.unpacked(data) for _, data in snapshot.failures()]
    finally:
        store.close()
    wanted = [
        one
        for one in found
        if not one.waiting and one.is_for(reasons) and selection.has(one.slot, one.url)
    ]
    return sorted(wanted, key=lambda one: -one.time)


def failures_of(path: Path, keys: Iterable[bytes]) -> dict[bytes, Failure]:
    """Return the last failure of each page that has failed, by its fingerprint."""
    last: dict[bytes, Failure] = {}
    store = Store.open(path, readonly=True, network=True)
    try:
        with store.snapshot() as snapshot:
            for digest, data in snapshot.failures():
                one, page = Failure.unpacked(data), page_of(digest)
                if page not in last or last[page].time < one.time:
                    last[page] = one
    finally:
        store.close()
    pages = {key: page_of(digest_of(key)) for key in keys}
    return {key: last[page] for key, page in pages.items() if page in last}


def failures_part(puts: dict[bytes, bytes]) -> Part:
    """Return the part of a transaction that stores these failed requests."""
    return Part(write=lambda batch: batch.put_failures(puts))
