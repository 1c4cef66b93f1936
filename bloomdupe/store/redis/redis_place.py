"""RedisPlace: a crawl of one partition on Redis, for one worker."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreError
from bloomdupe.store import files
from bloomdupe.store.format import FORMAT, MAGIC, META
from bloomdupe.store.participant import Part
from bloomdupe.store.redis.client import Client
from bloomdupe.store.redis.crawl_reader import CrawlOnRedis
from bloomdupe.store.redis.owner import NOBODY, PartitionOwner
from bloomdupe.store.redis.redis_store import RedisStore

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.store.batch import Batch
    from bloomdupe.store.redis.address import Address


class PartitionPlace:
    """A partition that this process owns, as the place of a store."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self.shown = store.shown

    def exists(self) -> bool:
        """Whether there is a store to open."""
        return bool(self._store.header)

    def open(self, *, readonly: bool = False) -> RedisStore:
        """Return the store, which is open."""
        del readonly
        return self._store

    def create(self, records: dict[str, dict[str, Any]]) -> RedisStore:
        """Write these records, among them ``store``, and return the store."""
        header = {"magic": MAGIC, "format": FORMAT, **records["store"]}
        records = {**records, "store": header}

        def write(batch: Batch) -> None:
            for name, record in records.items():
                batch.put_record(name, record)

        self._store.commit(Part(write=write))
        self._store.header = header
        return self._store

    def free_bytes(self) -> tuple[int, str]:
        """Return how many bytes a new store could take, and of what they are."""
        return self._store.free_memory(), f"memory free in {self.shown}"


class RedisPlace:
    """A place at an address; ``path`` is the directory beside it, which has its lock.

    Whoever has the lock is the only worker, and takes the partition at once.
    """

    def __init__(self, address: Address, path: Path) -> None:
        self.address = address
        self.shown = address.shown
        self._path = path

    def exists(self) -> bool:
        """Whether there is a store to open."""
        client = Client(self.address)
        try:
            reader = CrawlOnRedis(client)
            key = reader.keys.table(0, META)
            return bool(reader.read_head() and client.ask("HEXISTS", key, "store"))
        finally:
            client.close()

    def open(self, *, readonly: bool = False) -> RedisStore:
        """Open the store; ``readonly`` also while another process writes."""
        if not self.exists():
            raise StoreError(f"{self.shown}: there is no bloomdupe store")
        return self._read() if readonly else self._own()

    def create(self, records: dict[str, dict[str, Any]]) -> RedisStore:
        """Create a store with these records, among them ``store``, and open it."""
        return PartitionPlace(self._own()).create(records)

    def _read(self) -> RedisStore:
        client = Client(self.address)
        store = RedisStore(CrawlOnRedis(client), 0)
        store.path = self._path
        store.closing.callback(client.close)
        return store

    def _own(self) -> RedisStore:
        with ExitStack() as undo:
            files.make_directory(self._path, 0o700)
            lock = undo.enter_context(files.lock_owner(self._path))
            owner = PartitionOwner.at(self.address)
            undo.callback(owner.close)
            (store,) = owner.take({0: owner.look(1).owners.get(0, NOBODY)})
            store.path, store.lock = self._path, lock
            store.closing = undo.pop_all()
        return store

    def free_bytes(self) -> tuple[int, str]:
        """Return how many bytes a new store could take, and of what they are."""
        client = Client(self.address)
        try:
            return client.free_bytes(), f"memory free in {self.shown}"
        finally:
            client.close()
