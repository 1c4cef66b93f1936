"""SharedFrontier: what a crawl owes, for many processes on many machines."""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
from random import Random
from typing import TYPE_CHECKING, Any

from mmh3 import mmh3_32_uintdigest

from bloomdupe.errors import (
    SettingError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
)
from bloomdupe.filter.parameters import Parameters, check_same
from bloomdupe.redis.address import Address
from bloomdupe.redis.partition import Partition
from bloomdupe.redis.redis_filter import RedisFilter
from bloomdupe.redis.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Self

    from bloomdupe.redis.partition import Counts, Entry, Lease, Offer, Output

__all__ = ["SharedFrontier", "header_in", "mark_of", "part_of"]

FORMAT = 2
DEFAULT_PARTITIONS = 64
MAX_PARTITIONS = 4_096
MIN_LEASE = 0.05
"""Seconds."""


class SharedFrontier:
    """Pending and leased requests of a crawl on Redis, and what has been seen.

    Each worker has one of these. It *offers* the requests that it finds: those whose
    fingerprints are new wait from then on, in the partition of their slot. It *leases*
    what is to be done next, of the partitions that it owns, and *settles* what is done,
    together with the lines that this has put out. **Offer what a request leads to, and
    settle it then**: so whatever is seen waits, is handed out, or is done, whenever a
    worker dies.

    A partition has one owner at a time. :meth:`tend` takes and gives back partitions,
    so that each worker has its share, and says that this one is alive: call it three
    times within ``lease_seconds`` at least. A worker that does not loses its
    partitions, and what it was handed out waits again, for others; whatever it settles
    afterwards is refused.

    Not for several threads. Every method may be called again after a
    :class:`~bloomdupe.errors.StoreUnreachableError`, with the same arguments.
    """

    def __init__(
        self,
        server: Server,
        header: dict[str, Any],
        worker: str,
        lease_seconds: float,
        *,
        fifo: bool,
    ) -> None:
        self._server = server
        self.identity: dict[str, Any] = header["identity"]
        """Of whom it is, as whoever made it has said."""
        self._parameters = Parameters.from_header(header, server.address.shown)
        self.mark = mark_of(header)
        """What tells it from others, one made later under its name included."""
        self._size: int = header["partitions"]
        self.worker = worker
        self._milliseconds = int(lease_seconds * 1000)
        self._fifo = fifo
        self._partitions: dict[int, Partition] = {}
        self._owned: dict[int, Partition] = {}
        # Given back as soon as nothing of them is under way.
        self._leaving: set[int] = set()
        self._handed_out: list[Lease] = []
        self._chance = Random(worker)  # noqa: S311 - for no two workers the same
        self._present = False

    @classmethod
    def open(
        cls,
        url: str,
        capacity: int | None = None,
        fpp: float | None = None,
        *,
        partitions: int | None = None,
        worker: str | None = None,
        lease_seconds: float = 30.0,
        fifo: bool = False,
        identity: dict[str, Any] | None = None,
    ) -> Self:
        """Open the frontier that a URL names, or create it there.

        See :class:`~bloomdupe.redis.address.Address` for the URL. ``capacity`` is how
        many requests are expected in all, ``fpp`` the probability that a new one is
        taken for seen; ``partitions`` bounds the number of workers. All three hold for
        ever. The ``worker``'s name must be nobody else's; one is made up if it is not
        given. ``fifo`` lets the oldest request of a slot have its turn first, among
        those of the same priority. ``identity`` says of whom the frontier is, in JSON:
        another one is refused from then on.

        Raises :class:`~bloomdupe.errors.SettingError`,
        :class:`~bloomdupe.errors.StoreMismatchError` if it was made with other
        parameters, and what a server in trouble raises.
        """
        _check_partitions(partitions)
        if not lease_seconds >= MIN_LEASE:
            raise SettingError(
                f"lease_seconds = {lease_seconds!r}: expected {MIN_LEASE} at least"
            )
        address = Address.of(url)
        server = Server(address)
        try:
            header = _header(server, capacity, fpp, partitions, identity)
        except BaseException:
            server.close()
            raise
        name = worker or f"{socket.gethostname()}-{secrets.token_hex(6)}"
        return cls(server, header, name, lease_seconds, fifo=fifo)

    @classmethod
    def check(
        cls,
        url: str,
        capacity: int,
        fpp: float | None = None,
        *,
        partitions: int,
        identity: dict[str, Any],
    ) -> None:
        """Refuse what :meth:`open` would; create nothing."""
        _check_partitions(partitions)
        server = Server(Address.of(url))
        try:
            if server.fields():
                _header(server, capacity, fpp, partitions, identity)
        finally:
            server.close()

    def close(self) -> None:
        """Give back all partitions, and close the connection."""
        try:
            while self._owned:
                _, partition = self._owned.popitem()
                partition.renew(0)
            if self._present:
                self._server.run("present", self.worker, 0)
        finally:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Partitions

    def _partition_of(self, slot: str) -> int:
        # Frozen: another one would look for what is seen in the wrong place.
        return mmh3_32_uintdigest(slot.encode()) % self._size

    def _partition(self, number: int) -> Partition:
        found = self._partitions.get(number)
        if found is None:
            server = part_of(self._server, number)
            seen = RedisFilter.on(server, dict.fromkeys(vars(self._parameters)))
            found = Partition(number, server, seen, self.worker, fifo=self._fifo)
            self._partitions[number] = found
        return found

    @property
    def shown(self) -> str:
        """The URL, without password: for messages."""
        return self._server.address.shown

    @property
    def owned(self) -> list[int]:
        """Numbers of the partitions that this worker owns, as far as it knows."""
        return sorted(self._owned)

    def tend(self) -> None:
        """Stay the owner of what this worker owns; take or give back others.

        Each worker that is alive owns as many partitions as any other one, or one more.
        """
        self._present = True
        workers = self._server.run("present", self.worker, self._milliseconds)
        share = -(-self._size // workers)
        for number, partition in list(self._owned.items()):
            if not partition.renew(self._milliseconds):
                self._lost(number)
        surplus = len(self._owned) - share
        self._leaving = set(list(self._owned)[: max(0, surplus)])
        for number in list(self._leaving):
            self._give_back(number)
        if surplus >= 0:
            return
        others = [n for n in range(self._size) if n not in self._owned]
        self._chance.shuffle(others)
        for number in others:
            partition = self._partition(number)
            if partition.take(self._milliseconds):
                self._owned[number] = partition
                if len(self._owned) == share:
                    break

    def _give_back(self, number: int) -> None:
        """Let others have a partition, unless something of it is under way."""
        partition = self._owned[number]
        if not partition.under_way:
            partition.renew(0)
            self._lost(number)

    def _lost(self, number: int) -> None:
        del self._owned[number]
        self._leaving.discard(number)

    # The life of a request

    def offer(self, offers: Iterable[Offer]) -> list[bool]:
        """Take in requests; say of each whether it was new.

        A request that is offered again, by whomever, is not new.
        """
        offers = list(offers)
        by_partition: dict[int, list[int]] = {}
        for index, offer in enumerate(offers):
            by_partition.setdefault(self._partition_of(offer.slot), []).append(index)
        new = [False] * len(offers)
        for number, indices in by_partition.items():
            answers = self._partition(number).offer([offers[i] for i in indices])
            for index, answer in zip(indices, answers, strict=True):
                new[index] = answer
        return new

    def lease(self, count: int, of_each: int = 16) -> list[Lease]:
        """Hand out up to ``count`` requests, each to be settled.

        The slots have their turns. Of a slot, up to ``of_each`` are handed out at once;
        then it has its next turn after :meth:`ask_again`.
        """
        leases = self._handed_out  # not lost if a later partition does not answer
        numbers = [number for number in self._owned if number not in self._leaving]
        self._chance.shuffle(numbers)
        for number in numbers:
            if len(leases) >= count:
                break
            partition = self._owned[number]
            leases += partition.lease(count - len(leases), of_each)
            if not partition.fence:
                self._lost(number)
        self._handed_out = leases[count:]
        return leases[:count]

    def holds(self, lease: Lease) -> bool:
        """Whether this worker may still settle a request, as far as it knows.

        The only method that another thread may call.
        """
        partition = self._owned.get(lease.partition)
        return partition is not None and partition.fence == lease.fence

    def ask_again(self, slot: str) -> None:
        """Take note that a slot may have its next turn."""
        partition = self._owned.get(self._partition_of(slot))
        if partition is not None:
            partition.ask_again(slot)

    def settle(self, done: Iterable[tuple[Lease, Iterable[bytes]]]) -> list[Lease]:
        """Say that requests are done, with the lines that each has put out.

        Returns those that are refused, because their partitions have another owner by
        now: they were handed out once more, and their lines are not kept. All that a
        request leads to must have been offered.
        """
        by_owner: dict[tuple[int, str], list[tuple[Lease, Sequence[bytes]]]] = {}
        for lease, lines in done:
            owner = lease.partition, lease.fence
            by_owner.setdefault(owner, []).append((lease, list(lines)))
        refused = []
        for (number, fence), some in by_owner.items():
            partition = self._owned.get(number)
            if partition is None or partition.fence != fence:
                refused += [lease for lease, _ in some]
            elif not partition.settle(some):
                self._lost(number)
                refused += [lease for lease, _ in some]
            elif number in self._leaving:
                self._give_back(number)
        return refused

    # What is in it

    def counts(self) -> list[Counts]:
        """Count what is in each partition, one after another."""
        return [self._partition(number).counts() for number in range(self._size)]

    @property
    def finished(self) -> bool:
        """Whether nothing waits and nothing is handed out, anywhere."""
        return self.finished_but(0)

    def finished_but(self, held: int) -> bool:
        """Whether nothing waits, and no more than ``held`` requests are handed out.

        Then nothing more can come, but from those who offer what no request led to.
        Asked twice, for the partitions are looked at one after another: those that were
        empty, and have taken in nothing until they are looked at again, were empty all
        at once in between.
        """
        first = self.counts()
        if any(counts.slots for counts in first):
            return False
        if sum(counts.leased for counts in first) > held:
            return False
        return [(c.pushed, c.slots, c.leased) for c in first] == [
            (c.pushed, c.slots, c.leased) for c in self.counts()
        ]

    # What was put out

    def outputs(self) -> Iterator[Output]:
        """Yield the lines of all that is done."""
        for number in range(self._size):
            yield from self._partition(number).outputs()

    @property
    def partitions(self) -> int:
        """How many there are, numbered from 0."""
        return self._size

    def entries(self, partition: int, after: bytes, count: int) -> list[Entry]:
        """Return the oldest entries of a partition's output after one of them.

        ``NO_ENTRY`` stands before all. An entry is what was put out in one step.
        """
        return self._partition(partition).entries(after, count)

    def forget(self, partition: int, before: bytes) -> int:
        """Delete a partition's output before an entry; return how many entries went.

        That entry itself stays. So it is known, when the output is read on after it,
        whether Redis has lost anything.
        """
        return self._partition(partition).forget(before)

    def forgotten(self, partition: int) -> bytes:
        """Return the entry before which output was deleted, ``NO_ENTRY`` if none was.

        It was collected itself, as those before it.
        """
        return self._partition(partition).forgotten()

    def check_still_there(self) -> None:
        """Raise an error if it is not there any more, or another one is."""
        shown, fields = self.shown, self._server.fields()
        if b"header" not in fields:
            raise StoreError(
                f"{shown} is gone. Somebody has deleted it, or Redis was started"
                " without its data; restore them"
            )
        if mark_of(json.loads(fields[b"header"])) != self.mark:
            raise StoreMismatchError(
                f"{shown}: another frontier has been made under this name meanwhile"
            )


def mark_of(header: dict[str, Any]) -> str:
    """Return what tells a frontier from others, and does not give its key away."""
    return hashlib.sha256(b"frontier " + header["key"].encode()).hexdigest()[:32]


def _check_partitions(partitions: int | None) -> None:
    if partitions is not None and not 1 <= partitions <= MAX_PARTITIONS:
        raise SettingError(
            f"partitions = {partitions!r}: expected 1 to {MAX_PARTITIONS:,}"
        )


def part_of(server: Server, number: int) -> Server:
    """Return the server of a frontier with the name of a partition on it."""
    name, shown = server.address.name, server.address.shown
    address = server.address._replace(
        name=f"{name}:{number}", shown=f"{shown}:{number}"
    )
    return server.at(address)


def header_in(fields: Mapping[bytes, bytes], address: Address) -> dict[str, Any]:
    """Return the header in the fields of a head; refuse what is no such head."""
    shown = address.shown
    if b"frontier" not in fields:
        raise StoreMismatchError(
            f"{shown}: the key {address.head} holds something else than a"
            " frontier of bloomdupe; take another name"
        )
    if fields[b"frontier"] != b"%d" % FORMAT:
        raise StoreMismatchError(
            f"{shown} has format {fields[b'frontier'].decode()}, this version of"
            f" bloomdupe knows {FORMAT}; use the version that wrote it"
        )
    try:
        header: dict[str, Any] = json.loads(fields[b"header"])
    except (KeyError, ValueError) as error:
        raise StoreDamagedError(
            f"{shown}: the key {address.head} is not as it was written ({error!r});"
            " restore the data of Redis from a backup"
        ) from error
    return header


def _header(
    server: Server,
    capacity: int | None,
    fpp: float | None,
    partitions: int | None,
    identity: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return what a frontier was made with; make it if there is none.

    The head of the frontier is a hash of Redis at ``bloomdupe:{NAME}``:

    ``frontier``  2, the format; another one is refused
    ``header``    parameters, secret key, identity and number of partitions, as JSON
    ``whole``     1, when all partitions are made. If one is missing then, it is lost
    """
    shown = server.address.shown
    fields = server.fields()
    if not fields:
        if capacity is None:
            raise SettingError(
                f"{shown}: there is no frontier of this name; the first worker makes"
                " it, which must give a capacity"
            )
        new = Parameters.checked(capacity, fpp).header(identity or {})
        new["partitions"] = partitions or DEFAULT_PARTITIONS
        answer = server.run("create", "frontier", FORMAT, "header", json.dumps(new))
        fields = dict(zip(answer[::2], answer[1::2], strict=True))
    header = header_in(fields, server.address)
    wanted: dict[str, Any] = {
        "capacity": capacity, "fpp": fpp, "partitions": partitions
    }  # fmt: skip
    check_same(shown, header, {n: v for n, v in wanted.items() if v is not None})
    check_same(shown, header["identity"], identity or {})
    if b"whole" not in fields:
        parameters = vars(Parameters.from_header(header, shown))
        size = header["partitions"]
        given = {**parameters, "capacity": -(-parameters["capacity"] // size)}
        for number in range(size):
            RedisFilter.on(part_of(server, number), given)
        server.set_field("whole", "1")
    return header
