"""FrontierReader: reads a frontier on Redis while workers run, and changes nothing."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.errors import StoreError, StoreMismatchError
from bloomdupe.filter.parameters import Parameters
from bloomdupe.redis.address import Address
from bloomdupe.redis.frontier_header import (
    PartitionRule,
    header_in,
    mark_of,
    part_of,
    read_rules,
)
from bloomdupe.redis.record import Record
from bloomdupe.redis.server import Server
from bloomdupe.redis.settled.failed_requests import read_failures
from bloomdupe.redis.settled.tally import unpacked_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from typing_extensions import Self

    from bloomdupe.filter.sizing import Geometry
    from bloomdupe.redis.settled.failed_requests import StoredFailure
    from bloomdupe.redis.settled.tally import Numbers

__all__ = [
    "FrontierReader",
    "OnRedis",
    "PartitionState",
    "RunOfWorkers",
    "RunningWorkers",
    "kind_at",
    "read_history_of",
]

SLOTS_AT_ONCE = 1_000
REQUESTS_AT_ONCE = 500
BYTES_AT_ONCE = 1 << 20
"""Requests per script, which blocks Redis for some milliseconds."""


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


def read_history_of(
    server: Server, after: float
) -> tuple[float, list[bytes], list[RunOfWorkers]]:
    """Return Redis' Unix time, the looks after a time, and the runs by number."""
    now, looks, runs = server.run("history", int(after * 1000))
    found = [RunOfWorkers(*json.loads(run)) for run in runs[1::2]]
    return now / 1000, looks, sorted(found)


class PartitionState(NamedTuple):
    """The state of a partition at one moment."""

    number: int
    pushed: int
    """Requests that were ever accepted, and not removed by hand."""
    slots: int
    """Slots with pending requests."""
    leased: int
    """Requests in progress: handed out and not done."""
    done: int
    """Requests that are done."""
    owner: str
    """The worker that owns it; empty if it was given back, or the lease has run out."""
    entries: int
    """Entries of the output that are not collected and deleted yet."""
    layers: list[tuple[Geometry, int]]
    """Layers of the filter, oldest first, each with the number of its keys."""
    aside: int
    """Requests that a worker could not restore."""
    reasons: list[str]
    """Some of these requests, each with the reason."""
    lost_owner: str
    """The worker whose lease ran out before it gave the partition back; or empty."""
    lost_for: float
    """Seconds since its lease ran out."""
    failing: int
    """Number of changes to the failed requests."""
    forgotten: int
    """Failed requests that were removed, because there were too many."""
    totals: Numbers
    """Counts of settled requests, as the program has given them."""
    later: int
    """Requests scheduled for later."""
    due: float
    """Unix time at which the first of these is due."""

    @property
    def pending(self) -> int:
        """Pending requests, those that are scheduled for later included."""
        return self.pushed - self.leased - self.done

    @property
    def keys(self) -> int:
        """Keys in the filter."""
        return sum(keys for _, keys in self.layers)


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
        return self.number[:1] in b"cd"


class RunningWorkers(NamedTuple):
    """The workers of a frontier that have registered within their leases."""

    stays: bool
    """Whether one of them goes on when nothing is pending."""
    clock_ahead: float
    """Seconds by which Redis' clock is ahead of this machine's."""
    names: list[str]

    @classmethod
    def read(cls, server: Server) -> Self:
        """Ask the server of a frontier."""
        stays, now, *names = server.run("workers")
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
    :class:`~bloomdupe.redis.shared_frontier.SharedFrontier`, also for a URL without a
    frontier.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        fields = self._head()
        header = header_in(fields, server.address)
        if b"whole" not in fields:
            raise StoreError(
                f"{self.shown} is just being made, or the worker that began it was"
                " killed: start a worker, and look again"
            )
        self.parameters = Parameters.from_header(header, self.shown)
        """Parameters of all partitions together."""
        self.identity: dict[str, Any] = header["identity"]
        self.partitions: int = header["partitions"]
        """Number of partitions, which are numbered from 0."""
        self.slot_parts = PartitionRule.of(header, self.shown).slot_parts
        """The number of parts of each slot that has several."""
        self._mark = mark_of(header)
        self._parts = [part_of(server, number) for number in range(self.partitions)]

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the frontier that a URL names; it is never created."""
        server = Server(Address.of(url))
        with ExitStack() as undo:
            undo.callback(server.close)
            reader = cls(server)
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

    def _head(self) -> Mapping[bytes, bytes]:
        fields = self._server.fields()
        if not fields:
            raise StoreError(
                f"{self.shown}: there is no crawl of this name. If there was one,"
                " it was deleted, or Redis was started without its data"
            )
        if b"format" in fields and b"frontier" not in fields:
            raise StoreMismatchError(
                f"{self.shown} is a filter, and no crawl: `bloomdupe info` says what is"
                " in it"
            )
        return fields

    def check_still_there(self) -> None:
        """Raise an error if the frontier was removed, or replaced by a new one."""
        if mark_of(header_in(self._head(), self._server.address)) != self._mark:
            raise StoreMismatchError(
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
    def rules(self) -> list[dict[str, Any]]:
        """The rules that keep requests out."""
        return read_rules(self._server)

    def states(self) -> list[PartitionState]:
        """Yield the state of each partition, one after another."""
        return [self._state(number) for number in range(self.partitions)]

    def _state(self, number: int) -> PartitionState:
        part = self._parts[number]
        state = part.run("state")
        pushed, slots, leased, done, owner, left, entries, head, aside = state[:9]
        reasons, failing, forgotten, totals, later, milliseconds = state[9:]
        fields = dict(zip(head[::2], head[1::2], strict=True))
        record = Record.read(fields, part.address)
        return PartitionState(
            number,
            pushed,
            slots,
            leased,
            done,
            owner.decode() if left > 0 else "",
            entries,
            list(zip(record.layers, record.keys, strict=True)),
            aside,
            [reason.decode(errors="replace") for reason in reasons],
            "" if left > 0 else owner.decode(),
            max(0.0, -left / 1000),
            failing,
            forgotten,
            unpacked_groups(totals),
            later,
            time.time() + milliseconds / 1000,
        )

    def history(self, after: float) -> tuple[float, list[bytes], list[RunOfWorkers]]:
        """Return Redis' Unix time, the looks after a time, and the runs by number."""
        return read_history_of(self._server, after)

    def memory_used(self) -> tuple[int, int]:
        """Return the bytes that all data of this Redis takes, and the limit, or 0."""
        return self._server.memory_used()

    # Its contents

    def slots(self, partition: int) -> dict[str, int]:
        """Count the pending requests of each slot; takes 200 bytes of memory a slot."""
        found = {}
        cursor: bytes | int = 0
        while True:
            cursor, *some = self._parts[partition].run("hosts", cursor, SLOTS_AT_ONCE)
            for name, count in zip(some[::2], some[1::2], strict=True):
                found[name.decode(errors="replace")] = count
            if not int(cursor):
                return found

    def slot_states(self, partition: int) -> dict[str, dict[str, Any]]:
        """Return the states of the slots that have one, as the workers store them."""
        found = {}
        cursor: bytes | int = 0
        while True:
            cursor, *some = self._parts[partition].run("states", cursor, SLOTS_AT_ONCE)
            for name, state in zip(some[::2], some[1::2], strict=True):
                found[name.decode(errors="replace")] = json.loads(state)
            if not int(cursor):
                return found

    def pending_of(self, partition: int, slots: Sequence[str]) -> Iterator[OnRedis]:
        """Yield the pending requests of slots, slot by slot, the next request first."""
        part = self._parts[partition]
        nowhere: tuple[bytes | str, bytes | str] = ("", "")
        after, begin = nowhere, 0
        while begin < len(slots):
            asked = slots[begin : begin + SLOTS_AT_ONCE]
            read, *some = part.run(
                "pending_of", *after, REQUESTS_AT_ONCE, BYTES_AT_ONCE, *asked
            )
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
        met = set()
        cursor: bytes | int = 0
        while True:
            cursor, *some = self._parts[partition].run(
                "later", cursor, REQUESTS_AT_ONCE
            )
            for number, slot, score, payload, member, due in zip(
                *[iter(some)] * 6, strict=True
            ):
                if number not in met:
                    met.add(number)
                    name, priority = slot.decode(errors="replace"), -int(float(score))
                    at = float(due) / 1000 - ahead
                    yield OnRedis(name, priority, number, payload, None, member, at)
            if not int(cursor):
                return

    def failures(self, partition: int) -> list[StoredFailure]:
        """Return the failed requests of a partition, in no order."""
        return self._server.carry_out(read_failures(self._parts[partition], partition))

    def handed_out(self, partition: int) -> Iterator[OnRedis]:
        """Yield the requests in progress of a partition, in no order."""
        met = set()
        cursor: bytes | int = 0
        while True:
            cursor, owner, *some = self._parts[partition].run(
                "handed_out", cursor, REQUESTS_AT_ONCE
            )
            worker = owner.decode()
            for number, slot, score, payload in zip(*[iter(some)] * 4, strict=True):
                if number not in met:
                    met.add(number)
                    name, priority = slot.decode(errors="replace"), -int(float(score))
                    yield OnRedis(name, priority, number, payload, worker, b"")
            if not int(cursor):
                return
