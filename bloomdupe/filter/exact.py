"""ExactKeys: the keys that a filter also remembers without error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.filter.hashing import exact_id
from bloomdupe.store.format import EXACT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.store.store import Store


class ExactKeys:
    """A set of 16-byte identities, on disk where there is a store.

    Memory holds only the identities added since the last checkpoint (without a store:
    all of them).
    """

    def __init__(self, secret: bytes, store: Store | None) -> None:
        self._secret = secret
        self._store = store
        self.stored = 0
        self._pending: set[bytes] = set()

    def __len__(self) -> int:
        return self.stored + len(self._pending)

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the identities."""
        if self._store is not None:
            with self._store.snapshot() as snapshot:
                yield from snapshot.keys(EXACT)
        yield from self._pending

    def has(self, key: bytes) -> bool:
        """Whether the key is among them."""
        return self._has_id(exact_id(self._secret, key))

    def add(self, key: bytes) -> None:
        """Add a key that is not among them."""
        self._pending.add(exact_id(self._secret, key))

    def add_id(self, identity: bytes) -> None:
        """Add a key by its identity, if it is not among them."""
        if not self._has_id(identity):
            self._pending.add(identity)

    def _has_id(self, identity: bytes) -> bool:
        if identity in self._pending:
            return True
        if self._store is None:
            return False
        with self._store.snapshot() as snapshot:
            return snapshot.has(EXACT, identity)

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._pending)

    def pending(self) -> list[bytes]:
        """Identities for the next checkpoint, in order (cheapest for a B-tree)."""
        return sorted(self._pending)

    def done(self, identities: list[bytes]) -> None:
        """Mark these keys, which were pending, as durable."""
        self._pending.difference_update(identities)
        self.stored += len(identities)

    def clear(self) -> None:
        """Forget everything that is not in the store."""
        self._pending.clear()
        self.stored = 0
