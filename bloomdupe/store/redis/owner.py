"""PartitionOwner: the partitions that a worker owns, and its commits."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from functools import partial
from hashlib import sha1
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreError
from bloomdupe.store.format import (
    COOKIES,
    FORMAT,
    MAGIC,
    QUEUE,
    checksum,
    successor,
)
from bloomdupe.store.redis.client import Client, lua
from bloomdupe.store.redis.crawl_reader import NOBODY, CrawlOnRedis, pairs
from bloomdupe.store.redis.redis_store import RedisStore, not_owner
from bloomdupe.store.store import Commit, Part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from bloomdupe.store.redis.address import Address
    from bloomdupe.store.redis.crawl_reader import Counts, CrawlKeys, Sample

    Word: TypeAlias = bytes | str | int

MOST = 2_000
"""Arguments of one call in the script: Lua's stack holds 8,000."""
LONGEST_BLOCK = 7
"""Leases for which a worker that commits nothing may have a heartbeat."""
A_LEASE, MOST_PAUSE = 4, 5.0
"""Heartbeats in the time of a lease, and most seconds between two of them."""

NOTHING: Mapping[int, Any] = {}
COMMIT, MAKE, TAKE, HEARTBEAT = map(lua, ("commit", "make", "take", "heartbeat"))


class PartitionOwner(CrawlOnRedis):
    """A worker. Its random token is the owner of its partitions, and has steps.

    A commit is one script over all of them. It is refused if any partition has another
    owner, or if the step is not the next one: the lease was lost, or Redis has gone
    back. Then call :meth:`renew`, and read everything again.
    """

    def __init__(self, address: Address, partitions: int = 1) -> None:
        """Join the crawl at an address, or make it with so many partitions."""
        super().__init__(Client(address))
        self.token = secrets.token_hex(8)
        self.step = 0
        self._closed = Event()
        self.stores: dict[int, RedisStore] = {}
        """The partitions that it has, by number."""
        with ExitStack() as undo:
            undo.callback(self.close)
            self.client.check()
            keys = self.keys.head, self.keys.unused
            made = self.client.run(MAKE, keys, MAGIC, FORMAT, partitions)
            self.checked(pairs(made))
            self.take({})
            undo.pop_all()

    def take(self, wanted: Mapping[int, str]) -> list[RedisStore]:
        """Take partitions, if each still has the owner that was seen; return them.

        ``wanted`` is the token of the owner, or :data:`NOBODY`, by partition, as
        :meth:`sample_as_owner` has seen it: none that this worker has.
        """
        return self._take(NOBODY, wanted)

    def renew(self) -> list[RedisStore]:
        """Begin anew under another token, with the partitions of the old one.

        Its memory is worth nothing any more; read it again from these stores.
        Those of other partitions are worth nothing either.
        """
        # If Redis has gone back, the token may have other partitions than before.
        owners = self.sample(0).owners
        before, self.token, self.step = self.token, secrets.token_hex(8), 0
        self.stores = {}
        wanted = {one: token for one, token in owners.items() if token == before}
        return self._take(before, wanted)

    def _take(self, before: str, wanted: Mapping[int, str]) -> list[RedisStore]:
        seen = [word for number, token in wanted.items() for word in (number, token)]
        answer = self.client.run(TAKE, self.keys.fence, self.token, before, *seen)
        if isinstance(answer, bytes):
            raise self._refused(answer)
        taken = [RedisStore(self, int(number), self) for number in answer]
        self.stores |= {store.number: store for store in taken}
        return taken

    def sample_as_owner(self, partitions: int) -> Sample:
        """Return the status of the crawl, if this worker still owns its partitions."""
        sample = self.sample(partitions)
        mine = {
            number for number, token in sample.owners.items() if token == self.token
        }
        if sample.steps.get(self.token) != self.step or mine != self.stores.keys():
            raise not_owner(self.client.address.shown)
        return sample

    def still_owns(self, store: RedisStore) -> bool:
        """Whether Redis has this worker as the owner, at its step."""
        sample = self.sample(0)
        step = sample.steps.get(self.token, -1)
        return (
            self.stores.get(store.number) is store
            and sample.owners.get(store.number) == self.token
            and step in (self.step, self.step + 1)  # a commit may be on its way
        )

    def begin(
        self,
        parts: Mapping[RedisStore, Sequence[Part]],
        *,
        sent: Mapping[int, Sequence[bytes]] = NOTHING,
        counts: Mapping[int, Counts] = NOTHING,
        give: Collection[int] = (),
    ) -> Commit:
        """Begin a commit to partitions of this worker.

        ``sent`` are entries for the inboxes of partitions; ``counts`` are what is to be
        done, by partition. The partitions to ``give`` have no owner afterwards. The
        entries that were taken from the inboxes of all own partitions are removed.
        """
        taken = [(one, len(one.taken)) for one in self.stores.values() if one.taken]
        step = self.step + 1
        arguments: list[Word] = [
            self.token, step, len(self.stores), *self.stores, len(taken),
        ]  # fmt: skip
        calls: list[bytes] = []
        for store, number in taken:
            inbox = self.keys.inbox(store.number)
            # If Redis has gone back, the inbox may begin with other entries.
            digest = sha1(b"".join(store.taken), usedforsecurity=False).hexdigest()
            arguments += (inbox, number, digest)
            calls += words(b"LTRIM", inbox, b"%d" % number, b"-1")
        arguments += (*calls, *self._writes(parts, sent, counts, give))

        def done() -> None:
            for store, number in taken:
                del store.taken[:number]
            for store, some in parts.items():
                if any(part.cleared for part in some):
                    store.ahead.clear()
            for number in give:
                del self.stores[number]

        everything = [part for some in parts.values() for part in some]
        send = partial(self._send, step, arguments)
        return Commit([Part(done=done), *everything], send)

    def _writes(
        self,
        parts: Mapping[RedisStore, Sequence[Part]],
        sent: Mapping[int, Sequence[bytes]],
        counts: Mapping[int, Counts],
        give: Collection[int],
    ) -> Iterator[bytes]:
        for store, some in parts.items():
            if self.stores.get(store.number) is not store:
                raise not_owner(store.shown)
            for part in some:
                yield from _calls_of(part, self.keys, store.number)
        for number, entries in sent.items():
            yield from _calls(b"RPUSH", self.keys.inbox(number), entries)
        for number, count in counts.items():
            yield from words(b"HSET", self.keys.counts, b"%d" % number, count.packed)
        for number in give:
            yield from words(b"HDEL", self.keys.owners, b"%d" % number)

    def _send(self, step: int, arguments: list[Word]) -> None:
        if step != self.step + 1:
            raise StoreError(
                "a commit that was given up must not be sent: another one was sent"
                " since it was begun"
            )
        answer = self.client.run(COMMIT, self.keys.fence, *arguments)
        if answer not in (b"done", b"again"):
            raise self._refused(answer)
        self.step = step

    def _refused(self, why: bytes) -> StoreError:
        """Return the error for the answer of a script that has changed nothing."""
        if why == b"torn":
            return self.torn()
        shown = self.client.address.shown
        return self.gone() if why == b"gone" else not_owner(f"{shown} ({why.decode()})")

    def forget(self, tokens: Collection[str]) -> None:
        """Forget workers that are dead and own nothing."""
        if tokens:
            self.client.ask("HDEL", self.keys.steps, *tokens)
            self.client.ask("HDEL", self.keys.heartbeats, *tokens)

    def live(self, lease: float) -> None:
        """Have a heartbeat from now on, for workers that wait for so many seconds.

        It counts on a thread, as long as the step stands still. A callback may block
        its process for longer than the lease: in ``time.sleep()``, or in a call that
        waits for a server. Without this, its page would go to another worker, block it,
        too, and go round for ever. A worker that is blocked for :data:`LONGEST_BLOCK`
        leases is taken for hung.
        """
        pause = min(lease / A_LEASE, MOST_PAUSE)
        heartbeat = partial(self._heartbeat, pause, LONGEST_BLOCK * lease / pause)
        Thread(target=heartbeat, name="bloomdupe heart", daemon=True).start()

    def _heartbeat(self, pause: float, most: float) -> None:
        # Only the time in which this thread runs counts: the process may be stopped.
        last, count = (self.token, self.step), 0
        keys = self.keys.head, self.keys.heartbeats
        while not self._closed.wait(pause):
            now = self.token, self.step
            if now != last:
                last, count = now, 0
            elif count < most:
                count += 1
                self.client.send("EVAL", HEARTBEAT, 2, *keys, self.token)

    def give_back(self) -> None:
        """Give all partitions back at once, and close the connection.

        What is not committed is lost.
        """
        try:
            for store in self.stores.values():
                store.taken.clear()
            self.begin({}, give=[*self.stores]).send()
            self.forget([self.token])
        except StoreError:
            pass  # they take them when the lease has ended
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection. Other workers wait until the lease has ended."""
        self._closed.set()
        self.client.close()


def _calls_of(part: Part, keys: CrawlKeys, partition: int) -> Iterator[bytes]:
    """Yield the calls that write a part to a partition."""
    for table in part.cleared:
        yield from words(b"DEL", keys.table(partition, table))
    for table, changes in part.changes.items():
        in_order = table == QUEUE
        gone: list[bytes] = []
        puts: list[bytes] = []
        for key, value in changes.items():
            if value is None:
                gone += (b"[" + key, b"(" + successor(key)) if in_order else (key,)
            else:
                record = checksum(table, key, value) + value
                puts += (b"0", key + record) if in_order else (key, record)
        place = keys.table(partition, table)
        yield from _calls(b"CUT" if in_order else b"HDEL", place, gone)
        yield from _calls(b"ZADD" if in_order else b"HSET", place, puts)
    for line in part.output:
        yield from words(b"XADD", keys.output, b"*", *line)
    if COOKIES in part.cleared or part.changes.get(COOKIES):
        yield from words(b"HINCRBY", keys.head, b"cookies", b"1")


def _calls(call: bytes, key: bytes, values: Sequence[bytes]) -> Iterator[bytes]:
    """Yield a call with any number of values, as several calls."""
    for at in range(0, len(values), MOST):
        yield from words(call, key, *values[at : at + MOST])


def words(call: bytes, key: bytes, *arguments: bytes) -> Iterator[bytes]:
    """Yield a call as arguments of the script."""
    yield from (call, key, b"%d" % len(arguments))
    yield from arguments
