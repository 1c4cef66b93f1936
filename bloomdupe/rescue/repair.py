"""Repair: a new store with all readable records of a damaged store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bloomdupe.errors import (
    StoreDamagedError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
)
from bloomdupe.filter.contents import empty_record
from bloomdupe.filter.hashing import DIGEST_BYTES
from bloomdupe.filter.layer import LayerState
from bloomdupe.filter.parameters import Parameters
from bloomdupe.filter.sizing import PAGE_BITS
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.rank import sequence_of
from bloomdupe.store import files
from bloomdupe.store.datafile import DataFile
from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    COOKIES,
    FAILURES,
    FRONTIER_FORMAT,
    HISTORY,
    LEDGER,
    MODULUS,
    OPTIONAL_DATABASES,
    database_of,
    describe,
    read_record,
)
from bloomdupe.store.participant import Part
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bloomdupe.store.batch import Batch
    from bloomdupe.store.snapshot import Snapshot

HOME_ONLY = (COOKIES, FAILURES, HISTORY)
"""Databases with records that must not come back: outside its tree, a record may have
been deleted."""
BATCH_RECORDS = 2_000
"""Records that one transaction holds."""

_FORGOTTEN = "URLs in them are forgotten, and fetched again when a link leads to them"
CONSEQUENCES = {
    "pages": _FORGOTTEN,
    "journal": _FORGOTTEN,
    "exact": _FORGOTTEN,
    "queue": (
        "these requests are gone though their URLs count as seen, so their pages are"
        " never fetched (start anew to be sure of every page), or they come again"
    ),
    "later": (
        "these requests, which were scheduled for later, are gone, and pages that were"
        " to come again do not; or they come once more"
    ),
    "page_counts": "the pages of these slots are counted from 0 again",
    "delays": "AutoThrottle finds the delays of these slots anew",
    "cookies": "the crawl may not be logged in any more",
    "history": "the report on the crawl has gaps",
    "failures": "these requests have failed, and `requeue --failed` cannot retry them",
}
"""The effect of lost records, by database."""

Record = tuple[bytes, bytes, bytes]
"""Database, key, value."""


@dataclass
class Repaired:
    """The result of :func:`repair`: the records it saved and lost."""

    saved: dict[str, int] = field(default_factory=dict)
    """Records by database."""
    damaged: list[str] = field(default_factory=list)
    """Damage of the old store."""
    lost: list[str] = field(default_factory=list)
    """Losses, and their effects; empty: nothing was lost."""


def repair(
    source: Path, target: Path, progress: Callable[[int], None] | None = None
) -> Repaired:
    """Make the new store ``target`` from the readable records in ``source``.

    ``source`` stays as it is and must not be in use. ``progress`` is called with
    numbers of bytes; the file is read twice.
    """
    if target.exists():
        raise StoreError(f"{target} exists; name a new place for the repaired store")
    files.identify(source)
    if files.in_use(source):
        raise StoreLockedError(f"{source} is in use; wait for its owner or stop it")
    half = target.with_name(target.name + ".repairing")
    files.delete_unfinished(half)
    data = source / files.DATA
    with DataFile(data, salvage=True, progress=progress) as file:
        meta: dict[str, dict[str, Any]] = {}
        for database, key, value in _found(file, []):
            record = read_record(value) if database == b"meta" else None
            if record is not None:
                meta.setdefault(key.decode(), record)
    repaired = Repaired()
    header = meta.pop("store", None) or _marked(source, repaired)
    parameters = Parameters.from_header(header, source)
    written = meta.get("frontier", {}).get("format", FRONTIER_FORMAT)
    if written != FRONTIER_FORMAT:
        raise StoreMismatchError(
            f"{source}: its requests are written in format {written}, this version of"
            f" bloomdupe repairs format {FRONTIER_FORMAT}; use the version that wrote"
            " them"
        )
    counted = meta.pop(LEDGER, None)
    first = {"store": header, "filter": empty_record(parameters)}
    store = Store.create(half, first, network=True)
    try:
        store.make_room_for(*OPTIONAL_DATABASES)
        with DataFile(data, salvage=True, progress=progress) as file:
            for records in _batches(_found(file, repaired.damaged)):
                store.commit(_records(records))
            repaired.damaged[:0] = file.problems
            transaction = file.transaction
        closed = files.read_mark(source).transaction
        store.commit(_summary(store, parameters, meta, repaired))
        _account(store, counted, transaction, closed, repaired)
    finally:
        store.close()
    half.rename(target)
    files.sync_directory(target.parent)
    return repaired


def _marked(source: Path, repaired: Repaired) -> dict[str, Any]:
    """Read the description in ``store.json``, if the store's own record is lost."""
    header = files.read_marker(source)
    if header is None:
        raise StoreDamagedError(
            f"{source}: neither {files.DATA} nor {files.MARKER} says what the store is;"
            " without its parameters and its key nothing else in it means anything"
        )
    repaired.lost.append(f"the record of the store: taken from {files.MARKER}")
    return header


# Reading


def _found(file: DataFile, damaged: list[str]) -> Iterator[Record]:
    """Yield every intact record, records of trees first."""
    astray: list[Record] = []
    for database, root in file.databases().items():
        for leaf in file.records(database, root):
            for key, value in zip(leaf.keys, leaf.values, strict=True):
                home = database_of(key, value)
                if home == database:
                    yield database, key, value
                    continue
                damaged.append(describe(database, key))
                if home not in (None, *HOME_ONLY):  # on an old page of another tree
                    astray.append((home, key, value))
    file.finish()
    yield from astray
    for leaf in file.strays():
        for key, value in zip(leaf.keys, leaf.values, strict=True):
            home = database_of(key, value)
            if home not in (None, *HOME_ONLY):
                yield home, key, value


def _batches(found: Iterator[Record]) -> Iterator[list[Record]]:
    others = (record for record in found if record[0] != b"meta")
    while records := list(islice(others, BATCH_RECORDS)):
        yield records


# The records of meta


def _records(found: list[Record]) -> Part:
    def write(batch: Batch) -> None:
        for database, key, value in found:
            batch.put_again(database, key, value)

    return Part(write=write)


def _summary(
    store: Store,
    parameters: Parameters,
    meta: dict[str, dict[str, Any]],
    repaired: Repaired,
) -> Part:
    """Return the last transaction: the records that fit the saved data."""
    with store.snapshot() as snapshot:
        filter_ = _filter(snapshot, parameters, meta.get("filter"), repaired)
        frontier, slots = _frontier(snapshot, meta.get("frontier"), repaired)
        crawl, lost_blobs = _crawl(snapshot, meta.get("crawl"), repaired)
    records = meta | {"filter": filter_, "frontier": frontier, "crawl": crawl}
    if not slots and "later" not in frontier and "frontier" not in meta:
        del records["frontier"]  # it never had one
    if not crawl:
        del records["crawl"]

    def write(batch: Batch) -> None:
        batch.put_slots(slots)
        for name in lost_blobs:
            batch.delete_blob(name)
        for name, record in records.items():
            batch.put_record(name, record)

    return Part(write=write)


def _filter(
    snapshot: Snapshot,
    parameters: Parameters,
    record: dict[str, Any] | None,
    repaired: Repaired,
) -> dict[str, Any]:
    """Return the record of the filter; see :mod:`bloomdupe.filter.contents`."""
    stored: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for layer, value in snapshot.pages():
        total = stored[layer]
        total[0] += 1
        total[1] += int.from_bytes(value[:CHECKSUM_BYTES], "little")
        total[2] += int.from_bytes(value[CHECKSUM_BYTES:], "little").bit_count()
    journal = list(snapshot.journal())
    if record is None:
        record = empty_record(parameters) | {"layers": [], "notes": {"run": "open"}}
        repaired.lost.append("the record of the filter: its counts are estimates now")
    known = [LayerState(*state) for state in record["layers"]]
    count = 1 + max([0, len(known) - 1, *stored, *(entry.layer for entry in journal)])
    layers = []
    for number in range(count):
        pages, sums, ones = stored[number]
        entries = [entry for entry in journal if entry.layer == number]
        if number < len(known):
            state = known[number]
        else:
            shape = parameters.geometry(number)
            fill = ones / (shape.pages * PAGE_BITS)
            keys = round(shape.keys_for_fill(fill)) + sum(
                len(entry.digests) // DIGEST_BYTES for entry in entries
            )
            state = LayerState(
                shape.capacity, shape.fpp, shape.hashes, shape.pages, keys, 0, 0, 0
            )
        swept = max([state.swept, *(entry.swept for entry in entries)])
        layers.append(
            state._replace(swept=swept, stored=pages, stored_sum=sums % MODULUS)
        )
    end = max([record["journal_end"], *(entry.sequence + 1 for entry in journal)])
    return record | {
        "layers": layers,
        "journal_end": end,
        "journal_entries": len(journal),
        "exact": snapshot.entries("exact"),
    }


def _frontier(
    snapshot: Snapshot, record: dict[str, Any] | None, repaired: Repaired
) -> tuple[dict[str, Any], list[tuple[int, int, str]]]:
    """Return the record of the frontier, and all slots, those without requests too."""
    names = {slot.number: slot.name for slot in snapshot.slots()}
    counts = dict.fromkeys(names, 0)
    digest = sequence = 0
    for number, request in snapshot.queue():
        counts[number] = counts.get(number, 0) + 1
        digest += request.checksum
        sequence = max(sequence, 1 + sequence_of(request.rank))
        if number not in names:
            names[number] = urlsplit(url_of(request.payload)).hostname or ""
            repaired.lost.append(
                f"the name of slot {number}: it is called {names[number]!r} now"
            )
    waiting = later_sums = 0
    for later in snapshot.later():
        waiting += 1
        later_sums += later.checksum
        sequence = max(sequence, 1 + later.sequence)
    requests = sum(counts.values())
    if record is None:
        record = {"sequence": 0, "numbered": 0}
        if requests or waiting:
            repaired.lost.append("the record of the frontier: counted anew")
    slots = [(number, counts[number], name) for number, name in names.items()]
    frontier = {
        "format": FRONTIER_FORMAT,
        "requests": requests,
        "digest": digest % MODULUS,
        "slots": sum(count > 0 for count in counts.values()),
        "sequence": max(record["sequence"], sequence),
        "numbered": max([record["numbered"], *(number + 1 for number in names)]),
    }
    if waiting:
        frontier["later"] = {"requests": waiting, "digest": later_sums % MODULUS}
    return frontier, sorted(slots)


def _crawl(
    snapshot: Snapshot, record: dict[str, Any] | None, repaired: Repaired
) -> tuple[dict[str, Any], list[str]]:
    """Return the record ``crawl``, and lost blobs; see :mod:`bloomdupe.crawl`."""
    there = snapshot.blob_sums()
    if record is None:
        if there:
            repaired.lost.append(
                "the record of the crawl: totals begin anew; output files of earlier"
                " runs cannot be continued, so move them away"
            )
        return {}, list(there)
    wanted = record["blobs"]
    lost = [name for name, sums in wanted.items() if there.get(name) != sums]
    if not lost:
        return record, [name for name in there if name not in wanted]
    if "state" in lost:
        repaired.lost.append("spider.state: it begins empty")
    if lost != ["state"]:
        repaired.lost.append(
            "how far the output files were written: they cannot be continued, so move"
            " them away"
        )
        record = {n: part for n, part in record.items() if n not in ("feeds", "files")}
        lost += [name for name in wanted if name != "state" and name not in lost]
    blobs = {name: sums for name, sums in wanted.items() if name not in lost}
    return record | {"blobs": blobs}, [name for name in there if name not in blobs]


def _account(
    store: Store,
    counted: dict[str, Any] | None,
    transaction: int,
    closed: int,
    repaired: Repaired,
) -> None:
    """Report the saved records, compared with the counts in the old store.

    ``transaction`` is the last transaction of the old store, and ``closed`` the
    transaction that closed it.
    """
    saved = {name.decode(): total for name, total in store.totals.items()}
    repaired.saved = {name: records for name, (records, _) in saved.items()}
    if counted is None:
        repaired.lost.append(
            "the counts of records, so the number of lost records is unknown"
        )
        return
    if counted["transaction"] != transaction or transaction < closed:
        repaired.lost.append(
            "the last checkpoints: pages that were done since are fetched again, and"
            " their links are found again"
        )
    for name, consequence in CONSEQUENCES.items():
        expected = counted["totals"].get(name, [0, 0])
        found = saved.get(name, [0, 0])
        missing = expected[0] - found[0]
        if missing > 0:
            some = f"{missing:,} of {expected[0]:,}"
            repaired.lost.append(f"{some} {name} records: {consequence}")
        elif found != expected:
            repaired.lost.append(
                f"some of the last {name} records, older ones were found: {consequence}"
            )
