"""Crawls in partitions on Redis, made without a worker."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from bloomdupe import BloomFilter
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.frontier.sent_request import PARTITIONS
from bloomdupe.jobs.job_in_redis import taken
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.crawl_reader import NOBODY
from bloomdupe.store.redis.owner import PartitionOwner
from support.jobs import IDENTITY, fill

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request


def begin_crawl(url: str) -> None:
    """Begin a crawl as a worker does that ends at once."""
    with closing(PartitionOwner.at(Address.of(url), PARTITIONS)) as owner:
        for store in owner.take(dict.fromkeys(range(PARTITIONS), NOBODY)):
            BloomFilter.open(store, 1_000, identity=IDENTITY)
        owner.begin({}, give=range(PARTITIONS)).send()
        owner.forget([owner.token])


def make_crawl(
    url: str,
    waiting: Iterable[Request | str],
    *,
    done: Iterable[str] = (),
    ended: str = "shutdown",
) -> str:
    """Make a crawl that has stopped: pages that are done, and requests that wait.

    The same as :func:`support.jobs.make_job` in a directory.
    """
    begin_crawl(url)
    with closing(taken(Address.of(url), None, Rules())) as job:
        fill(job, waiting, done, ended)
    return url
