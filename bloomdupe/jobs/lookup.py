"""Lookup: whether a job has seen URLs, and whether they are pending."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.leases.failure import (
    Failure,
    digest_of,
    page_of,
    stored_failures,
)
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.sent_request import partition_of
from bloomdupe.jobs.changes import pending_among
from bloomdupe.jobs.listed import ListedRequest
from bloomdupe.jobs.project import Project
from bloomdupe.jobs.request_line import Defaults, read_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import Settings

    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.lines import Line, Problems
    from bloomdupe.store.store import Store


class FoundUrl(NamedTuple):
    """The state of a URL."""

    url: str
    seen: bool
    waits: list[ListedRequest]
    """The pending requests for it."""
    failed: Failure | None
    """Its last failure, if it has not succeeded since."""


def look_up(
    job: Job,
    settings: Settings | None,
    lines: Iterable[Line],
    problems: Problems,
) -> list[FoundUrl]:
    """Return the state of each URL, as of the last checkpoint.

    Lines that are no requests become ``problems``.
    """
    with job.filters() as filters:
        project = Project.of_store(settings, filters[0].identity)
        found = {
            url_of(one.payload): one
            for one in read_all(lines, Defaults(), project, problems)
        }
        keys = {url: one.keys[0] for url, one in found.items()}
        known = {
            url: filters[partition_of(found[url].slot, len(filters))].contains(
                key, exact=exact
            )
            for url, (key, exact) in keys.items()
        }
    pages = {key: url for url, (key, _) in keys.items()}
    with job.stores() as stores:
        # A URL that is not seen may be pending all the same, if another filter marks.
        pending: dict[bytes, list[ListedRequest]] = {}
        for key, one in pending_among(stores, pages, project):
            pending.setdefault(key, []).append(ListedRequest.of(one))
        failed = _failures_of(stores, pages)
    states = []
    for url, (key, _) in keys.items():
        waits = pending.get(key, [])
        states.append(FoundUrl(url, known[url] or bool(waits), waits, failed.get(key)))
    return states


def _failures_of(stores: list[Store], keys: Iterable[bytes]) -> dict[bytes, Failure]:
    """Return the last failure of each page that has failed, by its fingerprint."""
    last: dict[bytes, Failure] = {}
    for store in stores:
        with store.snapshot() as snapshot:
            for digest, one in stored_failures(snapshot):
                page = page_of(digest)
                if page not in last or last[page].time < one.time:
                    last[page] = one
    pages = {key: page_of(digest_of(key)) for key in keys}
    return {key: last[page] for key, page in pages.items() if page in last}
