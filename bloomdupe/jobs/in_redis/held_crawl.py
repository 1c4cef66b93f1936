"""HeldCrawl: a crawl on Redis of which this process has all partitions."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from bloomdupe.errors import StoreLockedError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.held_frontier import counts_of
from bloomdupe.frontier.sent_request import PARTITIONS
from bloomdupe.jobs.held import HeldJob
from bloomdupe.store.redis.owner import NOBODY, PartitionOwner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.project import Project
    from bloomdupe.store.participant import Part
    from bloomdupe.store.redis.address import Address
    from bloomdupe.store.redis.redis_store import RedisStore


class HeldCrawl(HeldJob):
    """A crawl of which this process has all partitions, so that no worker goes on.

    What workers have sent to each other stays in the inboxes. A worker that hangs, and
    goes on after all, reads its partitions anew.
    """

    _owner: PartitionOwner

    @classmethod
    def taken(
        cls,
        address: Address,
        project: Project | None,
        rules: Rules,
        open_filter: Callable[[RedisStore], BloomFilter] = BloomFilter.open,
    ) -> Self:
        """Take all partitions from workers that have ended, or do not answer.

        Partitions that are missing are made by ``open_filter``.
        """
        with ExitStack() as undo:
            owner = PartitionOwner.at(address, PARTITIONS)
            undo.callback(owner.give_back)
            owners = owner.look(PARTITIONS).owners
            owner.take({n: owners.get(n, NOBODY) for n in range(PARTITIONS)})
            if len(owner.stores) != PARTITIONS:
                raise StoreLockedError(
                    f"{address.shown} is in use by a worker that has just begun; stop"
                    " it, and try again"
                )
            filters = [open_filter(owner.stores[n]) for n in range(PARTITIONS)]
            job = cls(filters, project, rules)
            job._owner = owner
            undo.pop_all()
        return job

    def commit(self, parts: Mapping[int, Part] | None = None) -> None:
        """See :meth:`HeldJob.commit`: one commit to all partitions."""
        written = {}
        for number, frontier in enumerate(self.frontiers):
            more = [part for n, part in (parts or {}).items() if n == number]
            written[self._owner.stores[number]] = [frontier.prepare(), *more]
        counts = counts_of(dict(enumerate(self.frontiers)))
        commit = self._owner.begin(written, counts=counts)
        commit.send()
        commit.done()

    def close(self) -> None:
        """Give all partitions back, without uncommitted changes."""
        self._owner.give_back()
