"""OpenFrontier: a frontier that any process may change, whether workers run or not."""

from __future__ import annotations

from bisect import bisect
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from bloomdupe.redis.filter_on_server import MAX_BATCH, FilterOnServer
from bloomdupe.redis.frontier_header import (
    born_of,
    change_rules,
    check_partitions,
    header_of,
    partition_of,
    read_rules,
)
from bloomdupe.redis.frontier_reader import FrontierReader, RunningWorkers
from bloomdupe.redis.kept_offers import KeptOffers
from bloomdupe.redis.partition import Offer, SeenMark, stored_slot
from bloomdupe.redis.server import AT_ONCE, Call, Server
from bloomdupe.store.redis.address import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Self

    from bloomdupe.redis.frontier_reader import LeftOver, OnRedis
    from bloomdupe.redis.server import Talk
    from bloomdupe.redis.settled.failed_requests import StoredFailure

    One = TypeVar("One", Offer, SeenMark)
    Item = TypeVar("Item")

__all__ = ["OpenFrontier"]

FORGOTTEN_AT_ONCE = 10_000
"""Entries per script, which blocks Redis for some milliseconds."""


class OpenFrontier(FrontierReader):
    """Pending and leased requests of a crawl on Redis, and a filter of seen requests.

    Requests can be *offered* here: requests with new fingerprints become pending, in
    the partition of their slot. A worker, which does them, has a
    :class:`~bloomdupe.redis.shared_frontier.SharedFrontier`.

    Not thread-safe. Every method may be called again after a
    :class:`~bloomdupe.errors.StoreUnreachableError`, with the same arguments.
    """

    def __init__(
        self,
        server: Server,
        header: dict[str, Any],
        *,
        fifo: bool = False,
    ) -> None:
        super().__init__(server, header)
        self._fifo = fifo
        self.rules = read_rules(server)
        """Rules that keep requests out, as known last; see :meth:`change_rules`."""
        self._filters: dict[int, FilterOnServer] = {}
        # Offers that are repeated after an interruption, and the number of the
        # interruptions after which they were repeated.
        self._kept = KeptOffers()
        self._made_up = server.interruptions.count
        server.watch()
        self.clock_ahead = RunningWorkers.read(server).clock_ahead
        """Seconds by which Redis' clock is ahead of this machine's, as known last."""
        self._born = born_of(server.fields(), server.address)
        # It may be that of another frontier than the header.
        self.check_still_there()

    @classmethod
    def open(
        cls,
        url: str,
        capacity: int | None = None,
        fpp: float | None = None,
        *,
        partitions: int | None = None,
        identity: dict[str, Any] | None = None,
        key: bytes | None = None,
        **options: Any,  # noqa: ANN401 - of several types
    ) -> Self:
        """Open the frontier that a URL names, or create it there.

        See :class:`~bloomdupe.store.redis.address.Address` for the URL. ``capacity`` is
        the expected number of requests, and ``fpp`` the probability that a new request
        is taken for seen. ``partitions`` is the highest number of workers. One worker
        has all requests of a slot. These three never change afterwards.

        ``identity`` says to which crawl the frontier belongs, in JSON; opening it with
        a different identity is refused. ``key`` is the secret key of a new frontier.
        The ``options`` are for this process: with ``fifo``, the oldest request of a
        slot has its turn first, among requests of the same priority.

        Raises :class:`~bloomdupe.errors.SettingError`,
        :class:`~bloomdupe.errors.StoreMismatchError` if the frontier was made with
        other parameters, and the errors of a server in trouble.
        """
        check_partitions(partitions)
        server = Server(Address.of(url))
        with ExitStack() as undo:
            undo.callback(server.close)
            header = header_of(server, capacity, fpp, partitions, identity, key)
            frontier = cls(server, header, **options)
            undo.pop_all()
        return frontier

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
        """Raise the errors that :meth:`open` would raise; create nothing."""
        check_partitions(partitions)
        server = Server(Address.of(url))
        try:
            if fields := server.fields():
                born_of(fields, server.address)
                header_of(server, capacity, fpp, partitions, identity)
        finally:
            server.close()

    @classmethod
    def identity_at(cls, url: str) -> dict[str, Any] | None:
        """Return the identity of the frontier at a URL; None without a frontier."""
        server = Server(Address.of(url))
        try:
            if not server.fields():
                return None
            header = header_of(server, None, None, None, None)
            identity: dict[str, Any] = header["identity"]
            return identity
        finally:
            server.close()

    def check_open(self) -> None:
        """Raise an error if the frontier is being removed, or was replaced."""
        self.check_still_there()
        if born_of(self._server.fields(), self._server.address) != self._born:
            raise self._replaced()

    # Partitions

    def _partition_of(self, slot: str) -> int:
        return partition_of(stored_slot(slot), self.partitions)

    def _seen_in(self, numbers: Iterable[int]) -> list[FilterOnServer]:
        """Return filters of partitions; those used for the first time are opened."""
        numbers = list(numbers)
        new = [number for number in numbers if number not in self._filters]
        given = dict.fromkeys(vars(self.parameters))
        opened = self._server.at_once(
            FilterOnServer.opening(self._parts[number], given) for number in new
        )
        self._filters.update(zip(new, opened, strict=True))
        return [self._filters[number] for number in numbers]

    # Requests

    def offer(self, offers: Iterable[Offer]) -> list[int]:
        """Accept requests that are new; say of each whether it was: see :class:`Taken`.

        A request that was offered before, by any worker, is not new, unless its slot
        had no room for it.
        """
        self._make_up()
        offers = list(offers)
        new = self._ask_of(offers, self._offer_to)
        self._kept.keep(offers)
        return new

    def _make_up(self) -> None:
        """Repeat the offers that Redis may have lost, if there was an interruption."""
        interruptions = self._server.interruptions
        count = interruptions.count
        if count != self._made_up:
            self._server.reach()
            self._ask_of(list(self._kept), self._offer_to)
            self._kept.offered_again()
            interruptions.made_up_for()
            self._made_up = count

    def _ask_of(
        self, offers: list[Offer], talk: Callable[[int, list[Offer]], Talk[bytes]]
    ) -> list[int]:
        """Ask the partitions about offers, and set their further marks."""
        new = self._each(offers, talk)
        # In this order: without the mark, a request is done twice, and not lost.
        marks = [offer.also for offer in offers if offer.also is not None]
        self._each(marks, self._mark_in)
        return new

    def _each(
        self, ones: Sequence[One], talk: Callable[[int, list[One]], Talk[bytes]]
    ) -> list[int]:
        """Ask the partitions about requests or marks, a thousand in a round trip.

        The order within a partition stays. Returns the answer to each of them.
        """
        answers = [0] * len(ones)
        for first in range(0, len(ones), MAX_BATCH):
            places: dict[int, list[int]] = {}
            for place in range(first, min(first + MAX_BATCH, len(ones))):
                number = self._partition_of(ones[place].slot)
                places.setdefault(number, []).append(place)
            self._seen_in(places)
            found = self._server.at_once(
                talk(number, [ones[place] for place in own])
                for number, own in places.items()
            )
            for own, digits in zip(places.values(), found, strict=True):
                for place, digit in zip(own, digits, strict=True):
                    answers[place] = digit - ord("0")
        return answers

    def _offer_to(self, partition: int, offers: list[Offer]) -> Talk[bytes]:
        words = [offer.words(fifo=self._fifo) for offer in offers]
        return self._ask_filter(partition, "offer", offers, words)

    def _claim_in(self, partition: int, offers: list[Offer]) -> Talk[bytes]:
        keys: list[bytes] = []
        for one in offers:
            assert one.claimed_as is not None  # noqa: S101 - it has a claim
            keys += one.fingerprint, one.claimed_as
        digits = yield from self._filters[partition].each("claim", keys)
        return digits[::2]

    def _mark_in(self, partition: int, marks: list[SeenMark]) -> Talk[bytes]:
        return self._ask_filter(partition, "add", marks)

    def _known_in(self, partition: int, marks: list[SeenMark]) -> Talk[bytes]:
        return self._ask_filter(partition, "contains", marks)

    def _ask_filter(
        self,
        partition: int,
        script: str,
        ones: list[One],
        words: Sequence[tuple[bytes | str | int, ...]] = (),
    ) -> Talk[bytes]:
        keys = [one.fingerprint for one in ones]
        return self._filters[partition].each(script, keys, words)

    def knows(self, marks: Sequence[SeenMark]) -> list[bool]:
        """Say of each request whether it counts as seen."""
        self._make_up()
        return list(map(bool, self._each(marks, self._known_in)))

    def mark_seen(self, marks: Sequence[SeenMark]) -> None:
        """Mark requests as seen without adding them to the pending requests."""
        self._make_up()
        self._each(marks, self._mark_in)

    def left_over(self) -> LeftOver | None:
        """See :meth:`FrontierReader.left_over`."""
        self._make_up()
        return super().left_over()

    def drop(self, partition: int, found: Sequence[tuple[OnRedis, bytes]]) -> int:
        """Remove pending requests; return how many were pending still.

        With each comes the key of the failed request that it repeats, or nothing.
        """
        words = [word for one, key in found for word in (one.slot, one.member, key)]
        dropped: int = self._parts[partition].run("drop", *words)
        return dropped

    # Failed requests

    def failures(self, *partitions: int) -> list[StoredFailure]:
        """See :meth:`FrontierReader.failures`."""
        self._make_up()
        return super().failures(*partitions)

    def trim_failures(self, counts: Sequence[int], most: int) -> None:
        """Remove failed requests if all partitions together have more than ``most``.

        ``counts`` has the number in each partition. The oldest are removed, of the
        partitions with the most.
        """
        kept = _level(counts, most)
        self._server.at_once(
            _said(part, "trim", few)
            for part, count, few in zip(self._parts, counts, kept, strict=True)
            if few < count
        )

    def requeue(self, failed: Iterable[tuple[StoredFailure, Offer]]) -> int:
        """Make failed requests pending again, each as an offer.

        Returns how many there are, without those that were pending already.
        """
        self._make_up()
        words: dict[int, list[tuple[bytes | str | int, ...]]] = {}
        for one, offer in failed:
            more = one.key, one.times, *offer.words(fifo=self._fifo)
            words.setdefault(one.partition, []).append(more)
        pending: list[int] = self._server.at_once(
            _said(self._parts[number], "requeue", *(w for each in some for w in each))
            for number, every in words.items()
            for some in _portions(every)
        )
        return sum(pending)

    # The crawl

    def stop_workers(self) -> int:
        """Ask the running workers to stop; return how many there are.

        Workers that begin later do not notice it.
        """
        return int(self._server.run("stop"))

    def change_rules(
        self, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """Change the rules that keep requests out, and return them.

        A worker knows them when it has called ``look_around`` or ``tend``. It is the
        program that obeys them. ``change`` may be called several times.
        """
        self.rules = change_rules(self._server, change)
        return self.rules

    def forget(self, partition: int, before: bytes) -> int:
        """Delete a partition's output before an entry; return how many entries went.

        The entry itself stays. It shows, when the output is read on from there, whether
        Redis has lost anything.
        """
        gone = 0
        part = self._parts[partition]
        while some := part.run("forget", before, FORGOTTEN_AT_ONCE):
            gone += some
        return gone


def _said(part: Server, script: str, *words: bytes | str | float) -> Talk[Any]:
    """Run one script in a partition."""
    answer = yield Call(part, script, words)
    return answer


def _level(counts: Sequence[int], most: int) -> list[int]:
    """Lower the largest of these numbers until their sum is ``most``."""
    levels = range(max(counts) + 1)
    level = bisect(levels, most, key=lambda high: sum(min(n, high) for n in counts)) - 1
    spare = most - sum(min(count, level) for count in counts)
    lowered = []
    for count in counts:
        more = count > level and spare > 0
        spare -= more
        lowered.append(min(count, level + more))
    return lowered


def _portions(some: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(some), AT_ONCE):
        yield some[first : first + AT_ONCE]
