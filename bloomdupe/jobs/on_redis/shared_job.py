"""The project of a shared crawl, and its beginning by a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.crawl_job import CrawlJob
from bloomdupe.crawl.engines.on_redis.joining import check_not_shared, open_frontier
from bloomdupe.crawl.engines.on_redis.shared_feeds import shared_feeds_of
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.jobs.project import Project
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.store.redis.address import Address

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import Settings


def begin_shared_job(url: str, settings: Settings | None, spider: str | None) -> None:
    """Begin the crawl that a URL names, with the settings of the project.

    Raises :class:`~bloomdupe.errors.SettingError` if no spider is given, and for
    settings that a shared crawl cannot have.
    """
    project = project_of_shared_job(url, settings, spider)
    check_not_shared(project.settings)
    crawler = project.crawler
    assert crawler.spider is not None  # noqa: S101 - the project has made it
    workers = CrawlJob.of(crawler.spider, crawler.settings)
    feeds = shared_feeds_of(crawler)
    open_frontier(OpenFrontier, url, workers, feeds, fifo=True).close()


def change_rules(frontier: OpenFrontier, change: Callable[[Rules], Rules]) -> Rules:
    """Change the rules of a shared crawl that keep requests out, and return them."""
    rules = frontier.change_rules(
        lambda there: [*change(Rules.of({"blocked": there})).blocked]
    )
    return Rules.of({"blocked": rules})


def project_of_shared_job(
    url: str, settings: Settings | None, spider: str | None
) -> Project:
    """Return the project of a shared crawl; see :meth:`Project.of_job`."""
    identity = OpenFrontier.identity_at(url)
    return Project.of_job(settings, spider, identity, Address.of(url).shown)
