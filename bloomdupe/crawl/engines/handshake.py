"""Handshake: how a worker comes to partitions of a crawl on Redis, if it may."""

from __future__ import annotations

import asyncio
import math
from contextlib import ExitStack, closing
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.rounds import FINISHED
from bloomdupe.errors import StoreError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.parameters import Parameters, held_against
from bloomdupe.frontier.held_frontier import CONTROL, HeldFrontier
from bloomdupe.frontier.sent_request import PARTITIONS
from bloomdupe.inside_scrapy.engine import on_signal
from bloomdupe.printable import logger_of
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client
from bloomdupe.store.redis.crawl_reader import CrawlOnRedis
from bloomdupe.store.redis.owner import PartitionOwner
from bloomdupe.store.redis.redis_store import RedisStore

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from bloomdupe.crawl.engines.crawl_job import CrawlJob
    from bloomdupe.crawl.engines.session import Session

logger = logger_of(__name__)

PAUSE = 0.1
"""Seconds between two tries to get a partition, and to become the leader."""
SOON = 2.0
"""Seconds after which the log says that the worker waits."""


async def join(session: Session, job: CrawlJob) -> HeldFrontier:
    """Join the crawl, or make it; wait until a partition is here.

    A partition becomes free when a worker gives it away, because it has more, or when
    a dead worker's lease has ended. Raises :class:`~bloomdupe.errors.StoreError`.
    """
    settings = job.settings
    assert settings.redis_url is not None  # noqa: S101 - it is a shared crawl
    address = Address.of(settings.redis_url)
    identity = _identity_of(job, session.crawler)
    _check_crawl(job, identity, address)
    owner = PartitionOwner(address, PARTITIONS)
    with ExitStack() as undo:
        undo.callback(owner.close)
        owner.live(settings.redis_lease)
        held = HeldFrontier(
            owner,
            settings.redis_lease,
            partial(_open_filter, job, identity),
            parameters=Parameters.checked(
                settings.capacity, settings.fpp, exact=settings.exact.all
            ),
            **session.frontier_options,
        )
        say_who(held)
        # Before it is seen as the owner of any partition: who asks it to stop then
        # writes other rules than these.
        held.rules = owner.client.ask("GET", owner.keys.rules)
        before = notes_of(owner)
        await _get_partition(session, held)
        now = notes_of(owner)
        held.waited_for_round = before.get("run", FINISHED) != FINISHED or before.get(
            "generation"
        ) != now.get("generation")
        if not held.leads:
            held.notes_elsewhere = now
        undo.pop_all()
    return held


def _open_filter(
    job: CrawlJob, identity: dict[str, Any], store: RedisStore
) -> BloomFilter:
    """Open the filter of a partition, or make it."""
    exact = job.settings.exact.all
    share, fpp = _share_of(job), job.settings.fpp
    with job.by_settings():
        return BloomFilter.open(store, share, fpp, exact=exact, identity=identity)


def say_who(held: HeldFrontier) -> None:
    """Log the name of a worker that begins, or begins anew."""
    logger.info(
        "This is worker %(worker)s on %(crawl)s",
        {"worker": held.owner.token, "crawl": held.owner.client.address.shown},
    )


async def _get_partition(session: Session, held: HeldFrontier) -> None:
    since, reported, token = monotonic(), False, held.owner.token
    while True:
        with on_signal(held.owner.client.stop_waiting):
            if held.join():
                break
        if not session.crawler.crawling:
            raise StoreError("the crawl was stopped before it had any partition")
        if not reported and monotonic() - since > SOON:
            reported = True
            logger.info(
                "Other workers have all partitions of %(crawl)s: waiting until one"
                " gives some away, or its lease has ended",
                {"crawl": held.owner.client.address.shown},
            )
        await asyncio.sleep(PAUSE)
    if held.owner.token != token:  # Redis has gone back
        say_who(held)


def notes_of(owner: PartitionOwner) -> dict[str, Any]:
    """Return the notes of the whole crawl, which the leader writes."""
    with RedisStore(owner, CONTROL).snapshot() as snapshot:
        found: dict[str, Any] = (snapshot.record("filter") or {}).get("notes", {})
    return found


def _share_of(job: CrawlJob) -> int:
    """Return the capacity of the filter of each partition."""
    return math.ceil(job.settings.capacity / PARTITIONS)


def _identity_of(job: CrawlJob, crawler: Crawler) -> dict[str, Any]:
    return {
        "expected_urls": job.settings.capacity,
        **job.identity,
        "feeds": [name for name, _ in FeedExporter.of(crawler).named()],
    }


def _check_crawl(job: CrawlJob, identity: dict[str, Any], address: Address) -> None:
    """Refuse a crawl that may not join the crawl on Redis; nothing is changed."""
    capacity, fpp = job.settings.capacity, job.settings.fpp
    with closing(Client(address)) as client, job.by_settings():
        client.check()
        crawl = CrawlOnRedis(client)
        header = RedisStore(crawl, CONTROL).header if crawl.read_head() else {}
        if not header:
            whole = Parameters.checked(capacity, fpp)
            whole.check_room(client.free_bytes(), "memory free in that Redis")
            return
        wanted = {"capacity": _share_of(job), "fpp": fpp}
        held_against(address.shown, header, wanted, identity)
