"""FrontierReader: reads a frontier on Redis while workers run, and changes nothing."""

from __future__ import annotations

import json
import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.errors import StoreDamagedError, StoreError, StoreMismatchError
from bloomdupe.filter.parameters import Parameters
from bloomdupe.filter.redis_record import Record
from bloomdupe.redis.frontier_header import (
    head_of,
    header_in,
    mark_of,
    part_of,
    read_rules,
)
from bloomdupe.redis.partition import (
    NO_ENTRY,
    Counts,
    OutputEntry,
    OutputLine,
    is_start,
)
from bloomdupe.redis.server import AT_ONCE, Call, Server
from bloomdupe.redis.settled.failed_requests import read_failures
from bloomdupe.redis.settled.tally import unpacked_groups
from bloomdupe.store.redis.address import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from typing_extensions import Self

    from bloomdupe.filter.sizing import Geometry
    from bloomdupe.redis.server import Talk
    from bloomdupe.redis.settled.failed_requests import StoredFailure
    from bloomdupe.redis.settled.tally import Numbers

__all__ = [
    "FrontierReader",
    "LeftOver",
    "OnRedis",
    "PartitionState",
    "RunOfWorkers",
    "RunningWorkers",
    "kind_at",
]

SLOTS_AT_ONCE = 1_000
BYTES_AT_ONCE = 1 << 20
"""Requests per script, which blocks Redis for some milliseconds."""
ENTRIES_AT_ONCE = 100
"""Entries of the output per script."""


class RunOfWorkers(NamedTuple):
    """A stretch of time in which at least one worker was there."""

    number: int
    """From 1."""
    begun: float
    """Unix time."""
    ended: float | None
    """The same; None: the last of them was killed, or is there."""
    how: str
    """The reason that the last of them gave; ``open``: it gave none."""


@dataclass(frozen=True)
class PartitionState(Counts):
    """The state of a partition at one moment."""

    number: int
    seconds_left: float
    """Seconds that are left of the owner's lease; negative if it has run out."""
    entries: int
    """Entries of the output that are not collected and deleted yet."""
    layers: list[tuple[Geometry, int]]
    """Layers of the filter, oldest first, each with the number of its keys."""
    reasons: list[str]
    """Why some requests were set aside."""
    failed: int
    """Failed requests, also those that are pending again."""
    failing: int
    """Number of changes to the failed requests."""
    forgotten: int
    """Failed requests that were removed, because there were too many."""
    totals: Numbers
    """Counts of settled requests, as the program has given them."""
    due: float
    """Unix time at which the first request scheduled for later is due."""

    @property
    def owner(self) -> str:
        """The worker that owns it; empty if it has none, or the lease has run out."""
        return self.worker if self.seconds_left > 0 else ""

    @property
    def lost_owner(self) -> str:
        """The worker that lost the partition because its lease ran out; or empty.

        That was :attr:`lost_for` seconds ago.
        """
        return "" if self.seconds_left > 0 else self.worker

    @property
    def lost_for(self) -> float:
        """Seconds since the lease of the last owner ran out."""
        return max(0.0, -self.seconds_left)

    @property
    def keys(self) -> int:
        """Keys in the filter."""
        return sum(keys for _, keys in self.layers)


class LeftOver(NamedTuple):
    """The requests of a frontier that no worker can do now."""

    left: int = 0
    """Requests that were left, and may be done when their worker has ended."""
    aside: int = 0
    """Requests that were set aside."""
    later: int = 0
    """Requests scheduled for later."""
    due: float = math.inf
    """Unix time at which the first of these is due; infinite if there are none."""


class OnRedis(NamedTuple):
    """A request as a partition stores it."""

    slot: str
    priority: int
    number: bytes
    """Its number in the partition."""
    payload: bytes
    worker: str | None
    """The worker that it was handed out to; None if it is pending."""
    member: bytes
    """The request with all that its partition stores of it."""
    not_before: float | None = None
    """Unix time by this machine's clock before which it is not handed out, if it is
    scheduled for later.
    """

    @property
    def start(self) -> bool:
        """Whether it has its turn after other requests of the same priority."""
        return is_start(self.number)


class RunningWorkers(NamedTuple):
    """The workers of a frontier that have said so within their leases."""

    stays: bool
    """Whether one of them goes on when nothing is pending."""
    clock_ahead: float
    """Seconds by which Redis' clock is ahead of this machine's."""
    names: list[str]

    @classmethod
    def read(cls, server: Server) -> Self:
        """Ask the server of a frontier."""
        stays, now, *names = server.run("running")
        ahead = now / 1000 - time.time()
        return cls(bool(stays), ahead, sorted(name.decode() for name in names))


def kind_at(url: str) -> str:
    """Return the kind of data at a URL: crawl, filter, nothing, or other data."""
    server = Server(Address.of(url))
    try:
        fields = server.fields()
    finally:
        server.close()
    if b"frontier" in fields:
        return "crawl"
    if b"format" in fields:
        return "filter"
    return "something else" if fields else "nothing"


class FrontierReader:
    """Reads a frontier in small portions, each by one script that changes nothing.

    Partitions are read one after another while workers go on, so a request that moves
    meanwhile may be missing or be read twice. Raises the errors of
    :class:`~bloomdupe.redis.open_frontier.OpenFrontier`, also for a URL without a
    frontier.
    """

    def __init__(self, server: Server, header: dict[str, Any]) -> None:
        self._server = server
        self.parameters = Parameters.from_header(header, self.shown)
        """Parameters of the crawl, with the capacity of all partitions together."""
        self.identity: dict[str, Any] = header["identity"]
        """The identity that the creator of the frontier has given to it."""
        self.mark = mark_of(header)
        """A digest that identifies it; a later frontier of the same name differs."""
        self.partitions: int = header["partitions"]
        """Number of partitions, which are numbered from 0."""
        self._parts = [part_of(server, number) for number in range(self.partitions)]
        self._busy = 0
        """The partition that was not empty at the last look for the end."""

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the frontier that a URL names; it is never created."""
        server = Server(Address.of(url))
        with ExitStack() as undo:
            undo.callback(server.close)
            fields = head_of(server)
            header = header_in(fields, server.address)
            if b"whole" not in fields:
                raise StoreError(
                    f"{server.address.shown} is just being made, or the worker that"
                    " began it was killed: start a worker, and look again"
                )
            reader = cls(server, header)
            undo.pop_all()
        return reader

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shown(self) -> str:
        """The URL, without password: for messages."""
        return self._server.address.shown

    def check_still_there(self) -> None:
        """Raise an error if the frontier was removed, or replaced by a new one."""
        if mark_of(header_in(head_of(self._server), self._server.address)) != self.mark:
            raise self._replaced()

    def _replaced(self) -> StoreMismatchError:
        return StoreMismatchError(
            f"{self.shown}: another crawl has been made under this name meanwhile"
        )

    # Its state

    def workers(self) -> list[str]:
        """Return the sorted names of the workers that are alive."""
        return RunningWorkers.read(self._server).names

    @property
    def stays(self) -> bool:
        """Whether a worker is alive that stays open when nothing is pending."""
        return RunningWorkers.read(self._server).stays

    @property
    def round(self) -> int:
        """Number of the last round, from 1."""
        return int(self._server.fields().get(b"round", 1))

    def read_rules(self) -> list[dict[str, Any]]:
        """Return the rules that keep requests out."""
        return read_rules(self._server)

    def counts(self) -> list[Counts]:
        """Count the requests in each partition, not all at the same moment."""
        return self._server.at_once(map(_counts_of, self._parts))

    def states(self) -> list[PartitionState]:
        """Return the state of each partition, not all at the same moment."""
        return self._server.at_once(map(_state_of, range(self.partitions), self._parts))

    @property
    def finished(self) -> bool:
        """Whether no request is pending or in progress in any partition."""
        return self.left_over() == LeftOver()

    def left_over(self) -> LeftOver | None:
        """Count the requests that no worker can do now, at one moment.

        None if any other request is pending. Otherwise new requests can come only as
        offers that have no parent.
        """
        # Most often the partition that was not empty last time is not empty still.
        looked = time.time()
        number, *found = self._server.run("left_over", self.partitions, self._busy)
        if not found:
            self._busy = number
            return None
        left, aside, later, milliseconds = found
        due = looked + milliseconds / 1000 if later else math.inf
        return LeftOver(left - aside, aside, later, due)

    def history(self, after: float) -> tuple[float, list[bytes], list[RunOfWorkers]]:
        """Return Redis' Unix time, the looks after a time, and the runs by number."""
        now, looks, runs = self._server.run("history", int(after * 1000))
        found = [RunOfWorkers(*json.loads(run)) for run in runs[1::2]]
        return now / 1000, looks, sorted(found)

    def memory_used(self) -> tuple[int, int]:
        """Return the bytes that all data of this Redis takes, and the limit, or 0."""
        return self._server.memory_used()

    # Its contents

    def slots(self, partition: int) -> dict[str, int]:
        """Count the pending requests of each slot; takes 200 bytes of memory a slot."""
        found = self._rows(partition, "hosts", 2, SLOTS_AT_ONCE)
        return {name.decode(errors="replace"): count for name, count in found}

    def slot_states(self, partition: int) -> dict[str, dict[str, Any]]:
        """Return the states of the slots that have one, as the workers store them."""
        found = self._rows(partition, "states", 2, SLOTS_AT_ONCE)
        return {name.decode(errors="replace"): json.loads(text) for name, text in found}

    def _rows(
        self, partition: int, script: str, width: int, at_once: int
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that a script reads by a cursor, some perhaps twice."""
        cursor: bytes | int = 0
        while True:
            cursor, *some = self._parts[partition].run(script, cursor, at_once)
            yield from zip(*[iter(some)] * width, strict=True)
            if not int(cursor):
                return

    def pending_of(self, partition: int, slots: Sequence[str]) -> Iterator[OnRedis]:
        """Yield the pending requests of slots, slot by slot, the next request first."""
        part = self._parts[partition]
        nowhere: tuple[bytes | str, bytes | str] = ("", "")
        after, begin = nowhere, 0
        while begin < len(slots):
            asked = slots[begin : begin + SLOTS_AT_ONCE]
            read, *some = part.run("pending_of", *after, AT_ONCE, BYTES_AT_ONCE, *asked)
            after = nowhere
            for place, number, score, payload in zip(*[iter(some)] * 4, strict=True):
                if place == read:  # the slot goes on behind this one
                    after = score, number
                priority = -int(float(score))
                member = number + payload
                yield OnRedis(asked[place], priority, number, payload, None, member)
            begin += read

    def later(self, partition: int) -> Iterator[OnRedis]:
        """Yield the requests of a partition scheduled for later, in no order."""
        ahead = RunningWorkers.read(self._server).clock_ahead
        rows = self._rows(partition, "later", 6, AT_ONCE)
        for number, slot, score, payload, member, due in _once(rows):
            name, priority = slot.decode(errors="replace"), -int(float(score))
            at = float(due) / 1000 - ahead
            yield OnRedis(name, priority, number, payload, None, member, at)

    def handed_out(self, partition: int) -> Iterator[OnRedis]:
        """Yield the requests in progress of a partition, in no order."""
        rows = self._rows(partition, "handed_out", 5, AT_ONCE)
        for number, slot, score, payload, owner in _once(rows):
            name, priority = slot.decode(errors="replace"), -int(float(score))
            yield OnRedis(name, priority, number, payload, owner.decode(), b"")

    def failures(self, *partitions: int) -> list[StoredFailure]:
        """Return the failed requests of these partitions, or of all, in no order."""
        numbers = partitions or range(self.partitions)
        found = self._server.at_once(read_failures(self._parts[n], n) for n in numbers)
        return [one for some in found for one in some]

    # Its output

    def outputs(self) -> Iterator[OutputLine]:
        """Yield the lines of output of all requests that are done."""
        for partition in range(self.partitions):
            after = NO_ENTRY
            while entries := self.entries(partition, after, ENTRIES_AT_ONCE):
                for number, worker, lines in entries:
                    for line in lines:
                        yield OutputLine(partition, number, worker, line)
                after = entries[-1].number

    def entries(self, partition: int, after: bytes, count: int) -> list[OutputEntry]:
        """Return the first entries of a partition's output after the entry ``after``.

        ``NO_ENTRY`` precedes all entries. An entry holds the lines of one step. Raises
        :class:`StoreError` if some of these entries were deleted, or if Redis has lost
        the entry ``after``.
        """
        part = self._parts[partition]
        shown = part.address.shown
        deleted, there, found = part.run("output", after, count)
        if deleted and _place(after) < _place(deleted):
            raise StoreError(
                f"{shown}: lines of output are not there any more:"
                f" they were collected, and deleted before entry {deleted.decode()}."
                " They are where they were collected; go on there, or collect the rest"
                " into a new directory (--rest)"
            )
        if after != NO_ENTRY and not there:
            raise StoreError(
                f"{shown}: entry {after.decode()} of the output,"
                " which was collected, is not there any more: Redis has gone back to"
                " older data, or it was deleted. Requests that Redis has lost are done"
                " again, and its lines would be collected twice. If nothing was deleted"
                " after collecting, Redis has each line once: collect into a new"
                " directory. Else --rest collects there what Redis has, and some of it"
                " is in both"
            )
        return [_entry(shown, number, fields) for number, fields in found]

    def forgotten(self, partition: int) -> bytes:
        """Return the entry before which output was deleted, or ``NO_ENTRY``.

        That entry and the entries before it were collected.
        """
        deleted, *_ = self._parts[partition].run("output", NO_ENTRY, 1)
        return deleted or NO_ENTRY


def _counts_of(part: Server) -> Talk[Counts]:
    answer = yield Call(part, "state", (1,))
    return Counts(**_counted(answer))


def _counted(answer: Sequence[Any]) -> dict[str, Any]:
    names = Counts.__dataclass_fields__
    counted = dict(zip(names, answer, strict=True))
    return {**counted, "worker": counted["worker"].decode()}


def _state_of(number: int, part: Server) -> Talk[PartitionState]:
    answer = yield Call(part, "state")
    size = len(Counts.__dataclass_fields__)
    left, entries, head, reasons, *failures, totals = answer[size:]
    failed, failing, forgotten = failures
    counted = _counted(answer[:size])
    record = Record.read(dict(zip(head[::2], head[1::2], strict=True)), part.address)
    return PartitionState(
        **counted,
        number=number,
        seconds_left=left / 1000,
        entries=entries,
        layers=list(zip(record.layers, record.keys, strict=True)),
        reasons=[reason.decode(errors="replace") for reason in reasons],
        failed=failed,
        failing=failing,
        forgotten=forgotten,
        totals=unpacked_groups(totals),
        due=time.time() + counted["milliseconds"] / 1000,
    )


def _entry(shown: str, number: bytes, fields: list[bytes]) -> OutputEntry:
    if fields[0] != b"worker":
        raise StoreDamagedError(
            f"{shown}: entry {number.decode()} of the output is not as a worker writes"
            " it; another program writes to this key"
        )
    return OutputEntry(number, fields[1].decode(errors="replace"), fields[3::2])


def _place(number: bytes) -> tuple[int, ...]:
    """Return the number of an entry in a form that can be compared."""
    return tuple(map(int, number.split(b"-")))


def _once(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of requests, each number once."""
    met = set()
    for row in rows:
        if row[0] not in met:
            met.add(row[0])
            yield row
