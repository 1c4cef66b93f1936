"""StreamOutput: the output of workers that share a crawl, read from its stream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.progress.rounds import FINISHED, OPEN
from bloomdupe.errors import StoreDamagedError, StoreError, StoreMismatchError
from bloomdupe.filter.contents import stored_record
from bloomdupe.frontier.held_frontier import CONTROL
from bloomdupe.store.redis.crawl_reader import CrawlOnRedis
from bloomdupe.store.redis.redis_store import RedisStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.store.redis.client import Client

BEGIN = "0-0"
"""The position before all entries."""
YOUNG = 3.0
"""Seconds for which an entry is left alone. A Redis that is killed may come back
without it, and its items come again: they must not be in any file by then."""
AT_ONCE = 10
"""Entries to read at once; each has about a megabyte at most, or one item."""


class ItemEntry(NamedTuple):
    """Items that were stored in one step."""

    position: str
    items: list[bytes]
    """As :func:`bloomdupe.feeds.journal.packed` returns them, with the numbers
    of their feeds in the identity of the crawl."""


class StreamOutput:
    """The entries of a crawl in their order, of which those collected can be deleted.

    A position is the name of an entry, which has the time of Redis in milliseconds.
    Every method may be called again after a
    :class:`~bloomdupe.errors.StoreUnreachableError`.
    """

    def __init__(self, client: Client) -> None:
        self._client, self._crawl = client, CrawlOnRedis(client)
        self.shown = client.address.shown
        """The crawl, for messages."""
        if not self._crawl.read_head():
            raise StoreError(f"{self.shown}: there is no crawl of this name")
        header = self._header
        identity = header.get("identity", {})
        self.spider = str(identity.get("spider") or "unknown")
        self.feeds: list[str] = identity.get("feeds")
        """The names of its feeds."""
        if not isinstance(self.feeds, list) or not all(
            isinstance(name, str) and self.feeds.count(name) == 1 for name in self.feeds
        ):
            raise StoreMismatchError(
                f"{self.shown} names no feeds: no worker has begun this crawl"
            )
        self.mark = str(header["key"])
        """Identifies the crawl; another crawl of the same name has another mark."""

    @property
    def _header(self) -> dict[str, Any]:
        return RedisStore(self._crawl, CONTROL).header

    @property
    def forgotten(self) -> str:
        """The first entry that is left, which is collected; all before are deleted."""
        return self._crawl.read_head().get("forgotten", BEGIN)

    def check_still_there(self) -> None:
        """Raise :class:`~bloomdupe.errors.StoreError` if it is another crawl by now."""
        if not self._crawl.read_head():
            raise self._crawl.gone()
        if str(self._header.get("key")) != self.mark:
            raise StoreMismatchError(
                f"{self.shown}: this crawl was removed, and another one has its name"
            )

    def has_ended(self) -> bool:
        """Whether the crawl has ended: what is read from now on is all there is.

        Nothing is left to do then. The leader records how the crawl has ended, unless
        it has died; but a crawl that stays open ends only by that record.
        """
        sample = self._crawl.sample(self._crawl.partitions)
        with RedisStore(self._crawl, CONTROL).snapshot() as snapshot:
            notes = stored_record(snapshot)["notes"]
        died = notes.get("run") == OPEN and not notes.get("stays")
        return bool(sample.finished and (died or notes.get("run") == FINISHED))

    def _last(self) -> str:
        """Return the last entry; wait until it is old enough to be read."""
        output = self._crawl.keys.output
        last = self._client.ask("XREVRANGE", output, "+", "-", "COUNT", 1)
        if not last:
            return BEGIN
        name: str = last[0][0].decode()
        seconds, micros = map(int, self._client.ask("TIME"))
        age = seconds + micros / 1e6 - _key_of(name)[0] / 1000
        time.sleep(min(max(0.0, YOUNG - age), YOUNG))
        return name

    def entries(self, after: str) -> Iterator[ItemEntry]:
        """Yield the entries after a position that are there now, in their order.

        The entry at the position is read with them: it tells whether they follow it.
        Raises :class:`~bloomdupe.errors.StoreError` if it is not there any more.
        """
        if _key_of(self.forgotten) > _key_of(after):
            raise StoreMismatchError(
                f"{self.shown}: a part of the output was deleted by another `bloomdupe"
                " collect --delete`; collect into its directory, or add --rest to"
                " collect what is left into a new one"
            )
        end, output = max(self._last(), after, key=_key_of), self._crawl.keys.output
        while True:
            found = self._client.ask("XRANGE", output, after, end, "COUNT", AT_ONCE + 1)
            if after != BEGIN and not (found and found[0][0].decode() == after):
                raise StoreDamagedError(
                    f"{self.shown}: Redis has gone back to older data, in which items"
                    " that are collected here are missing; their pages are done again,"
                    " so they would come twice. Collect all of it into a new directory"
                )
            for name, fields in found[after != BEGIN :]:
                after = name.decode()
                yield ItemEntry(after, self._items_in(after, fields))
            if len(found) <= AT_ONCE:
                return

    def _items_in(self, name: str, fields: dict[bytes, bytes]) -> list[bytes]:
        try:
            return [fields[b"%d" % number] for number in range(len(fields))]
        except KeyError as error:
            raise StoreDamagedError(
                f"{self.shown}: entry {name} of the output is not as a worker writes"
                " it; delete it (XDEL)"
            ) from error

    def forget(self, position: str) -> int:
        """Delete the entries before a position; return how many entries went.

        The entry at the position stays, so that it can be looked for.
        """
        if position == BEGIN or _key_of(position) <= _key_of(self.forgotten):
            return 0
        # First this: else a crash between both would hide that entries are gone.
        self._client.ask("HSET", self._crawl.keys.head, "forgotten", position)
        output = self._crawl.keys.output
        return int(self._client.ask("XTRIM", output, "MINID", position))


def _key_of(position: str) -> tuple[int, ...]:
    """Return a position in its order: milliseconds of Unix time, and a number."""
    return tuple(map(int, position.split("-")))
