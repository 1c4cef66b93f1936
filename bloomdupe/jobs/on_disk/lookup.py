"""Lookup: whether a job has seen URLs, and whether they are pending."""

from __future__ import annotations

from contextlib import closing
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.leases.failure import (
    Failure,
    digest_of,
    page_of,
    stored_failures,
)
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.pending_requests import count_pending, pending_that
from bloomdupe.jobs.project import Project
from bloomdupe.jobs.request_line import Defaults, read_all
from bloomdupe.jobs.selection import Search
from bloomdupe.requests.layout import summary_of
from bloomdupe.store.place import place_of
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scrapy.settings import Settings

    from bloomdupe.jobs.lines import Line, Problems
    from bloomdupe.store.store import Store


class FoundUrl(NamedTuple):
    """The state of a URL."""

    url: str
    seen: bool
    waits: list[dict[str, Any]]
    """Slot, priority and callback of each pending request for it, and the Unix time
    before which it is not fetched, if there is one.
    """
    failed: dict[str, Any] | None
    """Reason, status and number of failures, if it has failed and not succeeded since.
    """


def look_up(
    path: Path,
    settings: Settings | None,
    lines: Iterable[Line],
    problems: Problems,
) -> tuple[list[FoundUrl], float]:
    """Return the state of each URL, as of the last checkpoint, and the filter's rate.

    Lines that are no requests become ``problems``. The rate is the filter's present
    false-positive probability.
    """
    with BloomFilter.open(path, readonly=True) as seen:
        project = Project.of_store(settings, seen.identity)
        found = read_all(lines, Defaults(), project, problems)
        keys = {one.request.url: project.key_of(one.request) for one in found}
        known = {
            url: seen.contains(key, exact=exact) for url, (key, exact) in keys.items()
        }
        fpp = seen.current_fpp()
    pages = {key: url for url, (key, _) in keys.items()}
    with closing(place_of(path).open(readonly=True)) as store:
        # A URL that is not seen may be pending all the same, if another filter marks.
        pending = _pending(store, Search(pages, project)) if pages else {}
        failed = _failures_of(store, pages)
    states = []
    for url, (key, _) in keys.items():
        waits = pending.get(key, [])
        states.append(FoundUrl(url, known[url] or bool(waits), waits, failed.get(key)))
    return states, fpp


def _pending(store: Store, search: Search) -> dict[bytes, list[dict[str, Any]]]:
    waits: dict[bytes, list[dict[str, Any]]] = {}
    read = pending_that(store, search.may_be)
    total = count_pending(store)
    read = told(read, f"Reading {store.path}", total, "requests", itemgetter(0))
    for one in chain.from_iterable(found for _, found in read):
        key = search.key_of(one.payload)
        if key is None:
            continue
        summary = summary_of(one.payload)
        waits.setdefault(key, []).append(
            {
                "slot": one.slot,
                "priority": summary.priority,
                "callback": summary.callback,
                "not_before": one.not_before,
            }
        )
    return waits


def _failures_of(store: Store, keys: Iterable[bytes]) -> dict[bytes, dict[str, Any]]:
    """Return the last failure of each page that has failed, by its fingerprint."""
    last: dict[bytes, Failure] = {}
    with store.snapshot() as snapshot:
        for digest, one in stored_failures(snapshot):
            page = page_of(digest)
            if page not in last or last[page].time < one.time:
                last[page] = one
    pages = {key: page_of(digest_of(key)) for key in keys}
    return {
        key: {
            "reason": last[page].reason,
            "status": last[page].status,
            "times": last[page].times,
        }
        for key, page in pages.items()
        if page in last
    }
