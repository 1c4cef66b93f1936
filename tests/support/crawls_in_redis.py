"""Crawls in partitions on Redis, made without a worker."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.request import fingerprint

from bloomdupe import BloomFilter
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.frontier.sent_request import PARTITIONS, SentRequest, partition_of
from bloomdupe.jobs.job_in_redis import taken
from bloomdupe.requests.serializer import Serializer
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.crawl_reader import NOBODY
from bloomdupe.store.redis.owner import PartitionOwner
from support.jobs import IDENTITY, SPIDER

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    serializer = Serializer(SPIDER)
    job = taken(Address.of(url), None, Rules())
    filters = [frontier.seen for frontier in job.frontiers]
    with closing(job):
        for url_done in done:
            slot = url_done.split("/")[2]
            filters[partition_of(slot)].add(fingerprint(Request(url_done)))
        for one in waiting:
            request = Request(one) if isinstance(one, str) else one
            slot = request.url.split("/")[2]
            filters[partition_of(slot)].add(fingerprint(request))
            payload = serializer.dump(request)
            job.push(SentRequest(slot, request.priority, payload))
        filters[0].notes["run"] = ended
        job.commit()
    return url
