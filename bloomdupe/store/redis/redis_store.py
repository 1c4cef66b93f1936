"""RedisStore: the contract of a store, for one partition of a crawl on Redis."""

from __future__ import annotations

import contextlib
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.errors import NotOwnerError, StoreDamagedError, StoreError
from bloomdupe.store.format import FORMAT, MAGIC, META, json_of
from bloomdupe.store.participant import Part
from bloomdupe.store.redis.redis_snapshot import RedisSnapshot
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bloomdupe.store.batch import Change
    from bloomdupe.store.redis.crawl_reader import CrawlOnRedis
    from bloomdupe.store.store import Commit


class Holder(Protocol):
    """What a store needs of its owner, a ``PartitionOwner``."""

    step: int

    def still_owns(self, store: RedisStore) -> bool:
        """Whether Redis has it as the owner, at its step."""

    def begin(self, parts: Mapping[RedisStore, Sequence[Part]]) -> Commit:
        """Begin a commit to some of its partitions."""

    def renew(self) -> object:
        """Begin anew under another token."""


class RedisStore(Store):
    """A partition, which ``owner`` has; without an owner it is read only.

    It is its own place: a :class:`~bloomdupe.store.store.StorePlace`.
    """

    remote = True

    def __init__(
        self,
        crawl: CrawlOnRedis,
        number: int,
        owner: Holder | None = None,
    ) -> None:
        self.number = number
        self.readonly = owner is None
        self.shown = f"{crawl.client.address.shown}, partition {number}"
        self.path = Path()
        self.closing = contextlib.ExitStack()
        """What ends with it."""
        self.ahead: dict[bytes, bytes | None] = {}
        """Pages of the filter that were read before they were asked for."""
        self.inbox = PartitionInbox(crawl, number)
        self._crawl = crawl
        self._owner = owner
        with self.snapshot() as snapshot:
            self.header: dict[str, Any] = snapshot.record("store") or {}

    def ask(self, command: str, table: bytes, *words: Any) -> Any:  # noqa: ANN401
        """Return the answer to a command about a table."""
        key = self._crawl.keys.table(self.number, table)
        return self._crawl.client.ask(command, key, *words)

    @property
    def transaction(self) -> int:
        """Number of the last commit of its owner; for a reader, of any worker."""
        return self._crawl.moment() if self._owner is None else self._owner.step

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[RedisSnapshot]:
        """Read what was committed."""
        yield self.now

    @property
    def now(self) -> RedisSnapshot:
        """What was committed."""
        return RedisSnapshot(self)

    def damaged(self, what: str) -> StoreError:
        """Return the error for damaged data, or that it is not the owner's any more."""
        return self.wrong(what, -1)

    def wrong(self, what: str, begun: int) -> StoreError:
        """Return the error for what a read has found that began at a commit.

        Reads are not fenced. So first it asks whether it has read its own data.
        """
        if self._owner is not None and not self._owner.still_owns(self):
            return not_owner(self.shown)
        if begun >= 0 and self.moved(begun):
            return StoreError(f"{self.shown} has changed meanwhile; try again")
        return StoreDamagedError(
            f"{self.shown}: {what}; restore the last backup of this Redis, or remove"
            " the crawl and begin it anew"
        )

    def moved(self, begun: int) -> bool:
        """Whether others have committed since a read that began at a commit."""
        return self._owner is None and self.transaction != begun

    def disk_bytes(self) -> int:
        """Return 0: it takes nothing on the disk of this machine."""
        return 0

    free_bytes = disk_bytes

    def own_again(self) -> None:
        """Be the owner again, if no other worker has it; all must be read again."""
        if self._owner is not None:
            self._owner.renew()
            if not self._owner.still_owns(self):
                raise not_owner(self.shown)

    def reset(self) -> None:
        """Forget what was read."""
        self.ahead.clear()
        self.inbox.removed(self.inbox.taken[1])

    def beat(self, moment: float) -> None:
        """Do nothing: its owner's lease shows that it is alive."""

    def begin(self, *parts: Part) -> Commit:
        """Begin a commit to this partition alone."""
        if self._owner is None:
            raise StoreError(f"{self.shown} was opened read-only")
        return self._owner.begin({self: parts})

    def close(self) -> None:
        """Release it; the connection is its owner's."""
        self.closing.close()

    # As a StorePlace

    def exists(self) -> bool:
        """Whether there is a store to open."""
        return bool(self.header)

    def open(self, *, readonly: bool = False) -> RedisStore:
        """Return the store, which is open."""
        del readonly
        return self

    def create(self, records: dict[str, dict[str, Any]]) -> RedisStore:
        """Write these records, among them ``store``, and return the store."""
        header = {"magic": MAGIC, "format": FORMAT, **records["store"]}
        everything = {**records, "store": header}.items()
        changes: list[Change] = [(n.encode(), json_of(one)) for n, one in everything]
        self.commit(Part(changes={META: changes}))
        self.header = header
        return self

    def room(self) -> tuple[int, str]:
        """Return how many bytes a new store could take, and of what they are."""
        return self._crawl.client.free_bytes(), f"memory free in {self.shown}"


class PartitionInbox:
    """What other workers have sent to a partition, in their order.

    Entries are *read*, then *taken* when they are in the memory of the owner, and
    removed by the next commit, which makes durable what became of them.
    """

    def __init__(self, crawl: CrawlOnRedis, number: int) -> None:
        self._crawl = crawl
        self._key = crawl.keys.inbox(number)
        self._taken: list[bytes] = []

    def read(self, limit: int) -> list[bytes]:
        """Return the next entries that are not taken."""
        first = len(self._taken)
        last = first + limit - 1
        found: list[bytes] = self._crawl.client.ask("LRANGE", self._key, first, last)
        return found

    def took(self, entries: Sequence[bytes]) -> None:
        """Say that these entries, which were read last, belong to the next commit."""
        self._taken += entries

    @property
    def taken(self) -> tuple[bytes, int, str]:
        """Key, number and digest of the entries that the next commit removes.

        If Redis has gone back, the inbox may begin with other entries.
        """
        digest = sha1(b"".join(self._taken), usedforsecurity=False).hexdigest()
        return self._key, len(self._taken), digest

    def removed(self, number: int) -> None:
        """Forget entries that a commit has removed."""
        del self._taken[:number]


def not_owner(shown: str) -> NotOwnerError:
    """Return the error for a partition that is not this worker's any more."""
    return NotOwnerError(
        f"{shown}: another worker has it now, or Redis has gone back to older data;"
        " what this worker did since its last commit does not count"
    )
