"""Removal: takes requests out of the store of a job that does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.store.format import MODULUS, request_key
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

__all__ = ["Remover"]

RECORD = "frontier"


class Remover:
    """Takes requests out of a store that the caller has opened for writing.

    The store must not be in use by a :class:`~bloomdupe.frontier.frontier.Frontier`
    meanwhile.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        with store.snapshot() as snapshot:
            self._record = snapshot.record(RECORD) or {}
            self._left = {slot.number: slot.requests for slot in snapshot.slots()}

    @property
    def left(self) -> int:
        """Requests that are still in the store."""
        later = self._record.get("later", {"requests": 0})
        return int(self._record.get("requests", 0) + later["requests"])

    def remove(self, found: Sequence[PendingRequest], *others: Part) -> None:
        """Remove these requests in one transaction, ``others`` with it.

        Each of them must be in the store.
        """
        left: dict[int, int] = {}
        names: dict[int, str] = {}
        digest = self._record["digest"]
        keys: list[bytes] = []
        later: list[PendingRequest] = []
        for one in found:
            number = one.number
            if number is None:
                later.append(one)
                continue
            keys.append(request_key(number, one.key))
            left[number] = left.get(number, self._left[number]) - 1
            names[number] = one.slot
            digest -= one.checksum
        record = self._record | {
            "requests": self._record["requests"] - len(keys),
            "digest": digest % MODULUS,
            "slots": self._record["slots"] - sum(not count for count in left.values()),
        }
        if later:
            record["later"] = self._without(later)
        slots = [(number, left[number], names[number]) for number in sorted(left)]
        postponed = sorted(one.key for one in later)

        def write(batch: Batch) -> None:
            batch.delete_requests(sorted(keys))
            batch.put_slots(slots)
            batch.count_requests(record["requests"], record["digest"])
            if later:
                batch.delete_later(postponed)
                batch.count_later(
                    record["later"]["requests"], record["later"]["digest"]
                )
            batch.put_record(RECORD, record)

        def done() -> None:
            self._record = record
            self._left.update(left)

        self._store.commit(Part(write=write, done=done), *others)

    def _without(self, later: list[PendingRequest]) -> dict[str, int]:
        """Return the record of the requests scheduled for later, without these."""
        before = self._record["later"]
        digest = before["digest"] - sum(one.checksum for one in later)
        return {
            "requests": before["requests"] - len(later),
            "digest": digest % MODULUS,
        }
