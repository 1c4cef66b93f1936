"""JobInRedis: a crawl that workers share. Its use needs ``bloomdupe[redis]``."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import cached_property, partial
from time import time
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.errors import StoreError, StoreLockedError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.parameters import Parameters
from bloomdupe.frontier.held_frontier import HeldFrontier
from bloomdupe.frontier.sent_request import PARTITIONS, SentRequest, partition_of
from bloomdupe.jobs.held import HeldJob, order_of
from bloomdupe.jobs.job import Job, Removed
from bloomdupe.jobs.view import Life
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client, lua
from bloomdupe.store.redis.crawl_reader import CrawlOnRedis
from bloomdupe.store.redis.owner import PartitionOwner
from bloomdupe.store.redis.redis_store import RedisStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bloomdupe.jobs.project import Project
    from bloomdupe.store.store import Store

REPLACE = lua("replace")
AT_ONCE = 1_000
"""Entries of an inbox in one answer."""


class JobInRedis(Job):
    """A crawl on Redis, named by its URL."""

    @cached_property
    def _address(self) -> Address:
        return Address.of(self.named)

    @property
    def shown(self) -> str:
        """The URL without password and options."""
        return self._address.shown

    @cached_property
    def _crawl(self) -> CrawlOnRedis:
        """The crawl; a Redis that is away is an error at once."""
        return CrawlOnRedis(Client(self._address, patience=0))

    @property
    def missing(self) -> StoreError:
        """The error if there is no crawl."""
        return StoreError(
            f"{self.shown}: there is no crawl of this name: a worker begins it"
        )

    def places(self) -> list[RedisStore]:
        """Return all partitions, if the crawl has begun."""
        crawl = self._crawl
        found = [RedisStore(crawl, number) for number in range(crawl.partitions)]
        return found if found and found[0].exists() else []

    def rules(self) -> Rules:
        """Read the rules."""
        return self._read_rules()[1]

    def _read_rules(self) -> tuple[bytes, Rules]:
        key = self._crawl.keys.rules
        text: bytes | None = self._crawl.client.ask("GET", key)
        return text or b"{}", Rules.read(text, key.decode())

    def replace_rules(self, change: Callable[[Rules], Rules]) -> Rules:
        """Replace the rules, unless they have changed meanwhile; then try again."""
        self.begun()
        keys, client = self._crawl.keys, self._crawl.client
        while True:
            before, rules = self._read_rules()
            rules = change(rules)
            text = rules.written(self.shown)
            if client.run(REPLACE, [keys.rules], before, text):
                return rules

    def life(self) -> Life:
        """Sample the owners of the partitions, and when one was last alive."""
        crawl, client = self._crawl, self._crawl.client
        partitions = crawl.partitions
        if not partitions:
            return Life()
        sample, facts = crawl.sample(partitions), client.ask("INFO")
        names = frozenset(sample.owners.values())
        figures = {
            "workers": len(names),
            "partitions": partitions,
            "unowned_partitions": partitions - len(sample.owners),
            "output_entries": client.ask("XLEN", crawl.keys.output),
            "memory_bytes": facts.get("used_memory", 0),
            "memory_limit": facts.get("maxmemory") or None,
        }
        now = int(client.ask("TIME")[0])
        written = sample.written or now
        moments = written, max(written, sample.alive)
        # By the clock of this machine.
        written_at, alive_at = (time() - max(0, now - one) for one in moments)
        owner = plural(len(names), "worker") if names else None
        return Life(owner, alive_at if names else None, names, written_at, figures)

    def sent(self, _: Sequence[Store]) -> Iterator[SentRequest]:
        """Yield the requests in the inboxes of the partitions."""
        crawl = self._crawl
        for number in range(crawl.partitions):
            at, key = 0, crawl.keys.inbox(number)
            while some := crawl.client.ask("LRANGE", key, at, at + AT_ONCE - 1):
                for entry in some:
                    with suppress(ValueError):  # its owner says so
                        yield SentRequest.read(entry)
                at += AT_ONCE

    def hold(self, project: Project | None, *, begin: bool = False) -> HeldJob:
        """Take all partitions from workers that have ended, or do not answer.

        What workers have sent to each other stays in the inboxes. A worker that hangs,
        and goes on after all, reads its partitions anew. Only a worker begins a crawl.
        """
        with self.stores() as stores:
            header = stores[0].header
        parameters = Parameters.from_header(header)
        # Workers that had ended soon may not have made the filter of each partition.
        opened = partial(
            BloomFilter.open,
            capacity=parameters.capacity,
            fpp=parameters.fpp,
            exact=parameters.exact,
            identity=header["identity"],
        )
        with ExitStack() as undo:
            owner = PartitionOwner(self._address, PARTITIONS)
            undo.callback(owner.give_back)
            held = HeldFrontier(
                owner,
                0.0,
                opened,
                parameters=parameters,
                order=order_of(project),
            )
            held.join()
            if len(owner.stores) != PARTITIONS:
                raise StoreLockedError(
                    f"{self.shown} is in use by a worker that has just begun; stop it,"
                    " and try again"
                )
            job = HeldJob(held, self.rules(), owner.give_back)
            undo.pop_all()
        return job

    def hand_over(self, requests: list[SentRequest]) -> None:
        """Leave requests in the inboxes of their partitions."""
        crawl, partitions = self._crawl, self._crawl.partitions
        entries: dict[int, list[bytes]] = {}
        for one in requests:
            number = partition_of(one.home, partitions)
            if one.dont_filter and not one.start:  # it is not marked as seen
                one = one._replace(keys=())  # noqa: PLW2901
            entries.setdefault(number, []).append(one.packed)
        for number, some in entries.items():
            crawl.client.ask("RPUSH", crawl.keys.inbox(number), *some)

    def remove(self, confirm: Callable[[Removed], None]) -> Removed:
        """Remove all keys in one step; a worker that is still there is refused then."""
        self.begun()
        self.check_stopped()
        crawl = self._crawl
        left = plural(crawl.client.ask("XLEN", crawl.keys.output), "entry", "entries")
        contents = f"{self.contents()}, {left} of output not collected"
        removed = Removed([self.shown], contents)
        confirm(removed)
        crawl.client.ask("UNLINK", *crawl.keys.every(crawl.partitions))
        return removed
