"""Lookup: whether a job has seen URLs, and whether they are pending."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.leases.failure import digest_of, page_of, stored_failures
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.sent_request import partition_of
from bloomdupe.jobs.held import pending_among
from bloomdupe.jobs.listed import ListedRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import Settings

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.lines import Line, Problems


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
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.request_line import Defaults, read_all

    with job.filters() as filters:
        project = Project.of_store(settings, filters[0].identity)
        known: dict[str, tuple[bytes, bool]] = {}
        for one in read_all(lines, Defaults(), project, problems):
            key, exact = one.keys[0]
            seen = filters[partition_of(one.slot, len(filters))]
            known[url_of(one.payload)] = key, seen.contains(key, exact=exact)
    urls = {key: url for url, (key, _) in known.items()}
    pending: dict[bytes, list[ListedRequest]] = {}
    failed: dict[bytes, Failure] = {}
    with job.stores() as stores:
        for key, found in pending_among(stores, urls, project):
            pending.setdefault(key, []).append(ListedRequest.of(found))
        for store in stores:
            with store.snapshot() as snapshot:
                for digest, failure in stored_failures(snapshot):
                    page = page_of(digest)
                    if page not in failed or failed[page].time < failure.time:
                        failed[page] = failure
    # A URL that is not seen may be pending all the same, if another filter marks.
    return [
        FoundUrl(
            url,
            seen or key in pending,
            pending.get(key, []),
            failed.get(page_of(digest_of(key))),
        )
        for url, (key, seen) in known.items()
    ]
