"""Joining: the settings on which all workers of a shared crawl must agree."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from bloomdupe.crawl.dupefilter import BloomDupeFilter
from bloomdupe.crawl.engines.crawl_job import CrawlJob
from bloomdupe.crawl.engines.on_redis.shared_feeds import FEED_OPTIONS, identity_of
from bloomdupe.errors import SettingError, StoreMismatchError, shown
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.settings import JobSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy.crawler import Crawler

    from bloomdupe.crawl.engines.on_redis.shared_feeds import SharedFeed

    Opened = TypeVar("Opened", bound=OpenFrontier)

__all__ = [
    "by_settings",
    "check_not_shared",
    "check_settings",
    "check_shared",
    "open_frontier",
]

SETTING_OF = {
    "capacity": "BLOOMDUPE_EXPECTED_URLS",
    "fpp": "BLOOMDUPE_FPP",
    "partitions": "BLOOMDUPE_REDIS_PARTITIONS",
    "spider": "BLOOMDUPE_REDIS_URL",
    "fingerprinter": "REQUEST_FINGERPRINTER_CLASS",
    "feeds": "FEEDS",
    FEED_OPTIONS: "FEEDS",
}
"""The settings in which users give the parameters of a shared frontier."""
NOT_SHARED = (
    "BLOOMDUPE_EXACT",
    "BLOOMDUPE_CHECKPOINT_INTERVAL",
    "BLOOMDUPE_FILTER_MEMORY",
)
"""Settings that only a crawl with a JOBDIR supports; they are refused."""


def check_shared(crawler: Crawler) -> None:
    """Refuse a crawl that could not be opened; nothing is changed.

    Raises :class:`~bloomdupe.errors.SettingError` for settings that a shared crawl
    cannot have, and the errors of :meth:`OpenFrontier.check`.
    """
    assert crawler.spider is not None  # noqa: S101 - it was made
    job = CrawlJob.of(crawler.spider, crawler.settings)
    check_settings(job, crawler)
    settings = job.settings
    assert settings.redis_url is not None  # noqa: S101 - it was checked
    with by_settings():
        OpenFrontier.check(
            settings.redis_url,
            settings.capacity,
            settings.fpp,
            partitions=settings.redis_partitions,
            identity=job.identity,
        )


@contextmanager
def by_settings() -> Iterator[None]:
    """Call parameters by the names of the settings that they come from."""
    try:
        yield
    except StoreMismatchError as error:
        name = SETTING_OF.get(error.parameter or "")
        if name is None:
            raise
        raise StoreMismatchError(
            f"{name}: {error}. Another crawl has another name in BLOOMDUPE_REDIS_URL",
            error.parameter,
        ) from error


def open_frontier(
    kind: type[Opened],
    url: str,
    job: CrawlJob,
    feeds: Sequence[SharedFeed],
    **options: Any,  # noqa: ANN401 - of another function
) -> Opened:
    """Open or create the crawl at a URL as workers with these settings do.

    ``kind`` is the class of the frontier, and ``feeds`` are its feeds. The ``options``
    are further arguments of :meth:`OpenFrontier.open`.
    """
    with by_settings():
        return kind.open(
            url,
            job.settings.capacity,
            job.settings.fpp,
            partitions=job.settings.redis_partitions,
            identity={**job.identity, **identity_of(feeds)},
            **options,
        )


def check_settings(job: CrawlJob, crawler: Crawler) -> None:
    """Refuse settings that a shared crawl cannot have."""
    settings = job.settings
    if settings.directory is not None:
        raise SettingError(
            "JOBDIR and BLOOMDUPE_REDIS_URL are both set, but a job is either in a"
            " directory or on Redis: unset JOBDIR (-s JOBDIR=) to share the crawl"
        )
    filter_ = load_object(crawler.settings["DUPEFILTER_CLASS"])
    if not issubclass(filter_, BloomDupeFilter):
        raise SettingError(
            "DUPEFILTER_CLASS: a crawl with BLOOMDUPE_REDIS_URL needs"
            " bloomdupe.BloomDupeFilter, because Redis decides which requests are"
            " duplicates: remove DUPEFILTER_CLASS from the settings"
        )
    check_not_shared(crawler.settings)
    if settings.start_requests == "always":
        raise SettingError(
            'BLOOMDUPE_START_REQUESTS = "always" does not work with'
            " BLOOMDUPE_REDIS_URL: each worker would schedule all of them"
        )


def check_not_shared(given: BaseSettings) -> None:
    """Refuse settings that only a crawl with a JOBDIR supports.

    Each may have its default, also as a text of the command line.
    """
    default = JobSettings.read(BaseSettings())
    for name in NOT_SHARED:
        if JobSettings.read(BaseSettings({name: given.get(name)})) != default:
            raise SettingError(
                f"{name} = {shown(given.get(name))} does not work with"
                " BLOOMDUPE_REDIS_URL; leave it out, or let one process crawl with a"
                " JOBDIR"
            )
