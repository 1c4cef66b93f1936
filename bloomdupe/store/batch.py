"""Batch: the writes of one transaction, in the words of filter and frontier."""

from __future__ import annotations

from collections import defaultdict
from struct import unpack
from typing import TYPE_CHECKING, Any

from bloomdupe.store.format import (
    BLOBS,
    CHECKSUM_BYTES,
    COOKIE_HEAD,
    COOKIES,
    COUNT,
    DELAY,
    DELAYS,
    FAILURE_HEAD,
    FAILURES,
    HISTORY,
    HISTORY_HEAD,
    HISTORY_KEY,
    JOURNAL_HEAD,
    JOURNAL_KEY,
    LATER,
    LEDGER,
    MODULUS,
    PAGE_COUNTS,
    PAGE_KEY,
    SLOT_HEAD,
    SLOT_KEY,
    JournalEntry,
    Ledger,
    Totals,
    checksum,
    json_of,
    name_digest,
    sum_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import lmdb

LMDB_PAGE_BYTES = 4096


class Batch:
    """A write transaction, in the words of the filter.

    ``totals`` are those of the last transaction. Call :meth:`seal` last.
    """

    def __init__(
        self,
        txn: lmdb.Transaction,
        databases: dict[bytes, Any],
        totals: Totals | None = None,
    ) -> None:
        self._txn = txn
        self._databases = databases
        self._totals: Totals = defaultdict(lambda: [0, 0])
        for name, (records, sums) in (totals or {}).items():
            self._totals[name] = [records, sums]
        self._meta = databases[b"meta"]
        self._journal = databases[b"journal"]
        self._exact = databases[b"exact"]

    def _put(self, database: bytes, key: bytes, value: bytes) -> None:
        """Store a value that begins with its sum, and keep the totals right."""
        before = self._txn.replace(key, value, db=self._databases[database])
        total = self._totals[database]
        if before is None:
            total[0] += 1
        else:
            total[1] -= sum_of(before)
        total[1] += sum_of(value)

    def _delete(self, database: bytes, key: bytes) -> None:
        """Remove a record, if it is there; its database may be absent, too."""
        if database not in self._databases:
            return
        before = self._txn.pop(key, db=self._databases[database])
        if before is not None:
            total = self._totals[database]
            total[0] -= 1
            total[1] -= sum_of(before)

    def seal(self) -> Ledger:
        """Write the ledger: the number of records of each database, and their sums."""
        totals = {
            name: [records, sums % MODULUS]
            for name, (records, sums) in self._totals.items()
        }
        ledger = Ledger(self._txn.id(), totals)
        key = LEDGER.encode()
        value = json_of(
            {
                "transaction": ledger.transaction,
                "totals": {name.decode(): total for name, total in totals.items()},
            }
        )
        self._txn.put(key, checksum(key, value) + value, db=self._meta)
        return ledger

    def put_record(self, name: str, record: dict[str, Any]) -> None:
        """Store a named record of numbers and texts."""
        key = name.encode()
        value = json_of(record)
        self._put(b"meta", key, checksum(key, value) + value)

    def put_page(self, layer: int, page: int, value: bytes) -> None:
        """Store a value that :func:`page_value` has made."""
        self._put(b"pages", PAGE_KEY.pack(layer, page), value)

    def put_journal(self, entry: JournalEntry) -> None:
        """Append an entry."""
        key = JOURNAL_KEY.pack(entry.sequence)
        value = JOURNAL_HEAD.pack(entry.layer, entry.swept) + entry.digests
        self._put(b"journal", key, checksum(key, value) + value)

    def delete_journal(self, sequence: int) -> None:
        """Remove an entry; all its digests are in their pages."""
        self._delete(b"journal", JOURNAL_KEY.pack(sequence))

    def put_exact(self, identities: Iterable[bytes]) -> None:
        """Store exact identities of keys."""
        total = self._totals[b"exact"]
        for identity in identities:
            if self._txn.put(identity, b"", overwrite=False, db=self._exact):
                total[0] += 1
                total[1] += sum(unpack("<QQ", identity))

    def put_requests(
        self, few: dict[bytes, bytes], many: Iterable[list[tuple[bytes, bytes]]]
    ) -> None:
        """Store records of :func:`request_record`, by key, and of slots with many.

        LMDB fills its pages only where records are appended at their ends; a page in
        which more records follow splits into halves, over and over. So if a slot gets
        many records, a page of the records that follow them is taken out and put back
        at the end.
        """
        with self._txn.cursor(self._databases[b"queue"]) as cursor:
            for records in many:
                lifted = _lift(cursor, records)
                cursor.putmulti(records)
                cursor.putmulti(lifted)
            # One call in C for all of them. In the order of the keys: each page of the
            # tree is touched once.
            cursor.putmulti(sorted(few.items()))

    def delete_requests(self, keys: list[bytes]) -> None:
        """Remove requests, best in the order of the keys."""
        delete, queue = self._txn.delete, self._databases[b"queue"]
        for key in keys:
            delete(key, db=queue)

    def put_slots(self, slots: Iterable[tuple[int, int, str]]) -> None:
        """Store slots (see :class:`StoredSlot`); those without requests are removed."""
        txn, database = self._txn, self._databases[b"slots"]
        records, sums = self._totals[b"slots"]
        number_of = int.from_bytes
        # As _put() and _delete(), but a crawl of many hosts changes many slots.
        for number, requests, name in slots:
            key = SLOT_KEY.pack(number)
            if requests:
                value = SLOT_HEAD.pack(requests) + name.encode(errors="surrogatepass")
                head = checksum(key, value)
                before = txn.replace(key, head + value, db=database)
                sums += number_of(head, "little")
                records += before is None
            else:
                before = txn.pop(key, db=database)
                records -= before is not None
            if before is not None:
                sums -= number_of(before[:CHECKSUM_BYTES], "little")
        self._totals[b"slots"] = [records, sums]

    def count_requests(self, requests: int, sums: int) -> None:
        """Set the number of stored requests and the total of their sums."""
        self._totals[b"queue"] = [requests, sums]

    def put_later(self, records: list[tuple[bytes, bytes]]) -> None:
        """Store records of :func:`later_record`, in the order of the keys."""
        with self._txn.cursor(self._databases[LATER]) as cursor:
            cursor.putmulti(records)

    def delete_later(self, keys: list[bytes]) -> None:
        """Remove requests that are scheduled for later, best in their order."""
        for key in keys:
            self._txn.delete(key, db=self._databases[LATER])

    def count_later(self, requests: int, sums: int) -> None:
        """Set the number of requests scheduled for later, and the total of sums."""
        self._totals[LATER] = [requests, sums]

    def put_blob(self, name: str, value: bytes) -> None:
        """Store some bytes under a name."""
        key = name.encode()
        self._put(BLOBS, key, checksum(key, value) + value)

    def delete_blob(self, name: str) -> None:
        """Remove the bytes stored under a name."""
        self._delete(BLOBS, name.encode())

    def put_page_counts(self, counts: dict[str, int]) -> None:
        """Store how many requests of these slots were ever accepted."""
        for slot, count in counts.items():
            key = name_digest(slot)
            value = COUNT.pack(count)
            self._put(PAGE_COUNTS, key, checksum(key, value) + value)

    def put_delays(self, delays: dict[str, float]) -> None:
        """Store the delays of these slots, in seconds."""
        for slot, seconds in delays.items():
            key = name_digest(slot)
            value = DELAY.pack(0, seconds)
            self._put(DELAYS, key, checksum(key, value) + value)

    def put_cookies(self, cookies: Mapping[bytes, bytes]) -> None:
        """Store cookies under their digests; unchanged cookies cost nothing.

        The database must exist, or ``cookies`` be empty.
        """
        for key, cookie in cookies.items():
            value = COOKIE_HEAD + cookie
            value = checksum(key, value) + value
            if self._txn.get(key, db=self._databases[COOKIES]) != value:
                self._put(COOKIES, key, value)

    def delete_cookies(self, keys: Iterable[bytes]) -> None:
        """Remove the cookies with these digests, if they are there."""
        for key in keys:
            self._delete(COOKIES, key)

    def clear_cookies(self) -> None:
        """Remove all cookies, and the note that some were left out of a backup."""
        if COOKIES in self._databases:
            self._txn.drop(self._databases[COOKIES], delete=False)
            self._totals[COOKIES] = [0, 0]
        self.note_cookies_left_out(0)

    def note_cookies_left_out(self, cookies: int) -> None:
        """Store the number of cookies that were left out when this store was copied."""
        if cookies:
            self.put_record(COOKIES.decode(), {"left_out": cookies})
        else:
            self._delete(b"meta", COOKIES)

    def put_failures(self, failures: Mapping[bytes, bytes]) -> None:
        """Store failures under the digests of their requests.

        The database must exist, or ``failures`` be empty.
        """
        for key, failure in failures.items():
            value = FAILURE_HEAD + failure
            self._put(FAILURES, key, checksum(key, value) + value)

    def delete_failures(self, keys: Iterable[bytes]) -> None:
        """Remove the failures with these digests, if they are there."""
        for key in keys:
            self._delete(FAILURES, key)

    def put_history(self, points: Mapping[tuple[int, int], bytes]) -> None:
        """Store points of the history by milliseconds and run.

        The database must exist, or ``points`` be empty.
        """
        for moment, point in points.items():
            key = HISTORY_KEY.pack(*moment)
            value = HISTORY_HEAD + point
            self._put(HISTORY, key, checksum(key, value) + value)

    def delete_history(self, moments: Iterable[tuple[int, int]]) -> None:
        """Remove points of the history."""
        for moment in moments:
            self._delete(HISTORY, HISTORY_KEY.pack(*moment))

    def clear(self) -> None:
        """Remove all pages, journal entries and exact identities."""
        for name in (b"pages", b"journal", b"exact"):
            self._txn.drop(self._databases[name], delete=False)
            self._totals[name] = [0, 0]


def _lift(
    cursor: lmdb.Cursor, records: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Take out and return about a page of the records that follow the new records."""
    if not cursor.set_range(records[0][0]) or not cursor.prev():
        return []  # no record follows, or none precedes
    lifted = []
    size = 0
    there = cursor.next()
    while there and size < LMDB_PAGE_BYTES:
        record = (bytes(cursor.key()), bytes(cursor.value()))
        lifted.append(record)
        size += len(record[0]) + len(record[1])
        cursor.delete()
        there = bool(cursor.key())  # now at the next record, if any
    return lifted
