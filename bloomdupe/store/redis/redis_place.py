"""PartitionPlace: a partition of a crawl on Redis, as the place of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.store.format import FORMAT, MAGIC
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from bloomdupe.store.batch import Batch
    from bloomdupe.store.redis.redis_store import RedisStore


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
