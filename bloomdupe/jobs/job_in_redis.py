"""JobInRedis: a crawl that workers share. Its use needs ``bloomdupe[redis]``."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
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
from bloomdupe.store.redis.client import Client, LuaScript
from bloomdupe.store.redis.crawl_reader import CrawlOnRedis
from bloomdupe.store.redis.owner import PartitionOwner
from bloomdupe.store.redis.redis_store import RedisStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bloomdupe.jobs.project import Project
    from bloomdupe.store.store import Store

REPLACE = LuaScript("replace")
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

    @contextmanager
    def _crawl(self) -> Iterator[CrawlOnRedis]:
        """Connect; a Redis that is away is an error at once."""
        with closing(Client(self._address, patience=0)) as client:
            yield CrawlOnRedis(client)

    @property
    def missing(self) -> StoreError:
        """The error if there is no crawl."""
        return StoreError(
            f"{self.shown}: there is no crawl of this name: a worker begins it"
        )

    @contextmanager
    def places(self) -> Iterator[list[RedisStore]]:
        """Give all partitions."""
        with self._crawl() as crawl:
            yield [RedisStore(crawl, number) for number in range(crawl.partitions)]

    def rules(self) -> Rules:
        """Read the rules."""
        with self._crawl() as crawl:
            return self._rules_in(crawl)[1]

    def _rules_in(self, crawl: CrawlOnRedis) -> tuple[bytes, Rules]:
        key = crawl.keys.rules
        text: bytes | None = crawl.client.ask("GET", key)
        return text or b"{}", Rules.read(text, key.decode())

    def replace_rules(self, change: Callable[[Rules], Rules]) -> Rules:
        """Replace the rules, unless they have changed meanwhile; then try again."""
        with self.begun(), self._crawl() as crawl:
            while True:
                before, rules = self._rules_in(crawl)
                rules = change(rules)
                text = rules.written(self.shown)
                if crawl.client.run(REPLACE, [crawl.keys.rules], before, text):
                    return rules

    def life(self) -> Life:
        """Sample the owners of the partitions, and when one has last committed."""
        with self._crawl() as crawl:
            if not crawl.partitions:
                return Life()
            client, sample = crawl.client, crawl.sample(crawl.partitions)
            names = frozenset(sample.owners.values())
            figures = {
                "workers": len(names),
                "partitions": len(sample.inboxes),
                "unowned_partitions": len(sample.inboxes) - len(sample.owners),
                "output_entries": client.ask("XLEN", crawl.keys.output),
                "memory_bytes": client.facts.get("used_memory", 0),
                "memory_limit": client.facts.get("maxmemory") or None,
            }
            written = crawl.written_at()
        if not names:
            return Life(written_at=written, workers=figures)
        owner = plural(len(names), "worker")
        return Life(owner, written, names, written, workers=figures)

    def sent(self, _: Sequence[Store]) -> Iterator[SentRequest]:
        """Yield the requests in the inboxes of the partitions."""
        with self._crawl() as crawl:
            for number in range(crawl.partitions):
                at, key = 0, crawl.keys.inbox(number)
                while some := crawl.client.ask("LRANGE", key, at, at + AT_ONCE - 1):
                    yield from map(SentRequest.read, some)
                    at += AT_ONCE

    def hold(self, project: Project | None, *, begin: bool = False) -> HeldJob:
        """Take all partitions from workers that have ended, or do not answer.

        What workers have sent to each other stays in the inboxes. A worker that hangs,
        and goes on after all, reads its partitions anew. Only a worker begins a crawl.
        """
        with self.stores() as stores:
            parameters = Parameters.from_header(stores[0].header, self.shown)
        with ExitStack() as undo:
            owner = PartitionOwner.at(self._address, PARTITIONS)
            undo.callback(owner.give_back)
            held = HeldFrontier(
                owner,
                0.0,
                BloomFilter.open,
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
        with self._crawl() as crawl:
            partitions = crawl.partitions
            entries: dict[int, list[bytes]] = {}
            for one in requests:
                number = partition_of(one.slot, partitions)
                entries.setdefault(number, []).append(one.packed)
            for number, some in entries.items():
                crawl.client.ask("RPUSH", crawl.keys.inbox(number), *some)

    def remove(self, confirm: Callable[[Removed], None]) -> Removed:
        """Remove all keys in one step; a worker that is still there is refused then."""
        with self.begun():
            life = self.life()
        if life.is_held:
            raise StoreError(
                f"{self.shown}: workers are there ({len(life.names)}), which would lose"
                " their requests in flight. Stop them (Ctrl-C once each, or"
                " `bloomdupe stop --wait`)"
            )
        contents = self.contents()
        if life.workers is not None:
            entries = plural(life.workers["output_entries"] or 0, "entry", "entries")
            contents += f", {entries} of output not collected"
        removed = Removed([self.shown], contents)
        confirm(removed)
        with self._crawl() as crawl:
            crawl.client.ask("UNLINK", *crawl.keys.every(crawl.partitions))
        return removed
