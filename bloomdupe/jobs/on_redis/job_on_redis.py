"""JobOnRedis: a crawl that workers share. Its use needs ``bloomdupe[redis]``."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import StoreError
from bloomdupe.jobs.job import Job, Removal, Ruled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from scrapy.settings import Settings

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.on_redis.changing_on_redis import ChangingOnRedis
    from bloomdupe.jobs.on_redis.state_on_redis import CrawlReader


PAUSE = 0.25
"""Seconds between two looks for workers that have ended."""


class JobOnRedis(Job):
    """A crawl on Redis, named by its URL.

    Its modules are imported when they are used, so that jobs on disk need no Redis.
    """

    engine: ClassVar[str] = "redis"
    kind: ClassVar[str] = "a crawl on Redis"

    # Only a job of stores has these.
    shown = identity = stores = rules = replace_rules = life = None  # type: ignore[assignment]
    filters = written_at = hold = hand_over = None  # type: ignore[assignment]

    @property
    def url(self) -> str:
        """The URL, which may hold a password: do not print it."""
        return self.named

    def adding(self, settings: Settings | None, spider: str | None) -> ChangingOnRedis:
        """Open the crawl; workers go on."""
        from bloomdupe.jobs.on_redis.changing_on_redis import ChangingOnRedis

        return ChangingOnRedis(self.url, settings, spider, adding=True)

    def changing(
        self,
        settings: Settings | None,
        *,
        by_url: bool,  # noqa: ARG002 - the project is made when it is needed
    ) -> ChangingOnRedis:
        """Open the crawl, which no worker may have."""
        from bloomdupe.jobs.on_redis.changing_on_redis import ChangingOnRedis

        return ChangingOnRedis(self.url, settings, None, adding=False)

    def change_rules(self, change: Callable[[Rules], Rules]) -> Ruled:
        """Change the rules that keep requests out; each worker reads them often."""
        from bloomdupe.jobs.on_redis.shared_job import change_rules
        from bloomdupe.redis.open_frontier import OpenFrontier

        with closing(OpenFrontier.open(self.url)) as frontier:
            rules = change_rules(frontier, change)
            runs = bool(frontier.workers())
        obeyed = "The workers obey in a second." if runs else "The next run obeys."
        return Ruled(rules, obeyed)

    def stop(self, *, wait: bool) -> int:
        """Ask all workers to end that are running now."""
        from bloomdupe.redis.open_frontier import OpenFrontier

        with closing(OpenFrontier.open(self.url)) as frontier:
            workers = frontier.workers()
            processes = frontier.stop_workers()
            if not processes:
                raise StoreError(
                    f"{frontier.shown}: no worker runs, so there is nothing to stop"
                )
            while wait and not set(workers).isdisjoint(frontier.workers()):
                time.sleep(PAUSE)
        return processes

    def reader(self) -> AbstractContextManager[CrawlReader]:
        """Connect a reader, which makes a history of its reads."""
        from bloomdupe.jobs.on_redis.state_on_redis import CrawlReader

        return closing(CrawlReader(self.url))

    @contextmanager
    def removal(self) -> Iterator[Removal]:
        """Read the crawl; refuse a URL that names no crawl."""
        from bloomdupe.jobs.on_redis.failures_on_redis import FailuresOnRedis
        from bloomdupe.jobs.on_redis.state_on_redis import overview
        from bloomdupe.redis.frontier_reader import FrontierReader
        from bloomdupe.redis.frontier_removal import remove_frontier

        with FrontierReader.open(self.url) as reader:
            try:
                job, _ = overview(reader, FailuresOnRedis(reader))
            except StoreError as error:
                contents = f"it cannot be read ({error})"
            else:
                workers = job.workers
                entries = 0 if workers is None else workers.output_entries
                assert workers is not None  # noqa: S101 - every crawl here has them
                seen = sum(one.keys for one in reader.states())
                contents = (
                    f"{job.state.name}, {plural(seen, 'URL')} seen,"
                    f" {plural(job.pending, 'request')} pending,"
                    f" {workers.leased:,} in progress, {job.pages:,} done,"
                    f" {plural(entries, 'entry', 'entries')} of output not collected"
                )
            shown = reader.shown
        yield Removal([shown], contents, partial(remove_frontier, self.url))
