"""Keys: the names of all keys of a crawl on Redis.

========================= ======= ====================================================
key                       type    value
========================= ======= ====================================================
``bd:{CRAWL}:head``       hash    ``magic``, ``format``, ``partitions``; ``begun`` and
                                  ``ended``: commits of all workers. They differ if
                                  Redis has restored a part of a commit. ``at``: time
                                  of the last one, by the clock of Redis, to be shown.
                                  ``block``: seconds for which a callback may block a
                                  worker, if one has done so for very long.
                                  ``cookies``: commits that have changed cookies.
                                  ``forgotten``: last entry of the output that was
                                  deleted
``bd:{CRAWL}:owners``     hash    token of the owner, by number of the partition
``bd:{CRAWL}:steps``      hash    number of the last commit, by token of the worker
``bd:{CRAWL}:beats``      hash    heartbeats while it did not commit, by token
``bd:{CRAWL}:counts``     hash    :class:`.crawl_reader.Counts` by number of the
                                  partition, as four words; the time in milliseconds
``bd:{CRAWL}:rules``      string  :class:`bloomdupe.crawl.state.rules.Rules` as JSON
``bd:{CRAWL}:output``     stream  lines of the output, each with the fields that the
                                  commit gave it
``bd:{CRAWL}:unused``             is gone at once: ``make.lua`` tries the rights of a
                                  user there
``bd:{CRAWL}:cookies``    hash    the table ``cookies``, which all partitions share
``bd:{CRAWL}:P:TABLE``            a table of partition P: :mod:`bloomdupe.store.format`
                                  has its keys and values. ``exact`` is a set; ``queue``
                                  and ``later`` are sorted sets whose members, of score
                                  0, are key and value: no key is the beginning of
                                  another one, so they are in the order of the keys. All
                                  other tables are hashes.
``bd:{CRAWL}:P:inbox``    list    what other workers have sent to partition P
========================= ======= ====================================================

One hash tag: a Redis Cluster keeps all of it on one node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.store.format import COOKIES, LATER, QUEUE, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

SORTED = (QUEUE, LATER)
"""Tables that are sorted sets."""


class CrawlKeys:
    """The keys of the crawl with this name."""

    def __init__(self, name: str) -> None:
        self._tag = b"bd:{%b}:" % name.encode()
        self.head = self._tag + b"head"
        self.owners = self._tag + b"owners"
        self.steps = self._tag + b"steps"
        self.beats = self._tag + b"beats"
        self.counts = self._tag + b"counts"
        self.rules = self._tag + b"rules"
        self.output = self._tag + b"output"
        self.unused = self._tag + b"unused"

    @property
    def fence(self) -> tuple[bytes, bytes, bytes]:
        """The keys that tell whether a worker may commit."""
        return self.head, self.owners, self.steps

    def every(self, partitions: int) -> Iterator[bytes]:
        """Yield all keys that the crawl may have."""
        yield from (key for key in vars(self).values() if key is not self._tag)
        for number in range(partitions):
            yield from (self.table(number, one) for one in (*TABLES, b"inbox"))

    def table(self, partition: int, table: bytes) -> bytes:
        """Return the key of a partition's table."""
        if table == COOKIES:
            return self._tag + COOKIES
        return b"%b%d:%b" % (self._tag, partition, table)

    def inbox(self, partition: int) -> bytes:
        """Return the key of a partition's inbox."""
        return self.table(partition, b"inbox")
