"""Requests scheduled for later in the partitions of a crawl, against a model."""

from __future__ import annotations

import time
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from support.redis_server import RedisServer

from bloomdupe.redis.frontier_reader import FrontierReader, LeftOver
from bloomdupe.redis.partition import Offer, RedisLease, Settled
from bloomdupe.redis.shared_frontier import SharedFrontier

LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test."""
UNIT = 1_000.0
"""Seconds of the model's clock; the time that a test takes does not matter."""
EVERYTHING = 10_000


def open_one(url: str, partitions: int = 1, **options: Any) -> SharedFrontier:
    frontier = SharedFrontier.open(
        url, EVERYTHING, partitions=partitions, lease_seconds=LONG, **options
    )
    frontier.tend()
    return frontier


def in_units(units: float) -> float:
    """Return the Unix time in the middle of a unit from now."""
    return time.time() + (units - 0.5) * UNIT


class Known(NamedTuple):
    """A request as the model knows it."""

    number: int
    slot: str
    priority: int
    start: bool

    def offer(self, units: int) -> Offer:
        name = b"%d" % self.number
        due = in_units(units) if units else None
        return Offer(self.slot, name, name, self.priority, self.start, not_before=due)


WAITS = st.integers(0, 5)
"""In units; 0: at once."""
names = count()


class LaterMachine(RuleBasedStateMachine):
    """Drives one partition.

    The model: the requests of each slot with the order of their turns, and those that
    are scheduled for later with their times, in units.
    """

    server: RedisServer

    def __init__(self) -> None:
        super().__init__()
        self.name = f"later {next(names)}"
        self.url = self.server.url(self.name)
        self.numbers = count()
        self.now = 0
        self.joined = 0
        self.done = 0
        self.pending: dict[Known, tuple[int, bool, int]] = {}
        self.later: dict[Known, tuple[int, bool, int]] = {}
        self.leased: dict[Known, tuple[RedisLease, tuple[int, bool, int]]] = {}
        self.frontier = open_one(self.url)
        self.reader = FrontierReader.open(self.url)

    def teardown(self) -> None:
        self.frontier.close()
        self.reader.close()

    # The model

    def put(self, one: Known, units: int) -> None:
        """Make a request pending, or schedule it."""
        if units:
            self.later[one] = (self.now + units, one.start, one.number)
            return
        self.joined += 1
        turn = self.joined if one.start else -self.joined
        self.pending[one] = (-one.priority, one.start, turn)

    def move_due(self) -> None:
        for one, (due, *_) in sorted(self.later.items(), key=lambda item: item[1]):
            if due <= self.now:
                del self.later[one]
                self.put(one, 0)

    def next_of(self, slot: str) -> Known:
        mine = [one for one in self.pending if one.slot == slot]
        return min(mine, key=self.pending.__getitem__)

    # The partition

    @rule(
        slot=st.sampled_from("ab"),
        priority=st.integers(-1, 1),
        start=st.booleans(),
        units=WAITS,
        times=st.integers(1, 2),
    )
    def offer(
        self, slot: str, priority: int, start: bool, units: int, times: int
    ) -> None:
        one = Known(next(self.numbers), slot, priority, start)
        for again in range(times):
            assert self.frontier.offer([one.offer(units)]) == [not again]
        self.put(one, units)

    @rule(units=st.integers(1, 3))
    def pass_time(self, units: int) -> None:
        self.now += units
        self.server.pass_time(self.name, units * UNIT)

    @rule(number=st.integers(1, 4))
    def lease(self, number: int) -> None:
        for slot in "ab":
            self.frontier.ask_again(slot)
        self.move_due()
        expected = min(number, len(self.pending))
        leases = self.frontier.lease(number, of_each=100)
        assert len(leases) == expected
        for lease in leases:
            one = self.next_of(lease.slot)
            assert (one.number, one.priority) == (int(lease.payload), lease.priority)
            assert lease.again.start == one.start
            self.leased[one] = lease, self.pending.pop(one)

    @rule(data=st.data(), units=WAITS, replaced=st.integers(0, 2))
    def settle(self, data: st.DataObject, units: int, replaced: int) -> None:
        if not self.leased:
            return
        chosen = data.draw(st.sampled_from(sorted(self.leased)))
        lease, _ = self.leased.pop(chosen)
        new = [
            Known(next(self.numbers), chosen.slot, chosen.priority, chosen.start)
            for _ in range(replaced)
        ]
        instead = [one.offer(units) for one in new]
        for _ in range(2):  # the second time, nothing happens
            assert self.frontier.settle([Settled(lease, [], instead)]) == []
        for one in new:
            self.put(one, units)
        self.done += 1

    @rule()
    def another_worker_takes_over(self) -> None:
        self.server.end_leases(self.name)
        self.frontier = open_one(self.url)
        for one, (_, turn) in self.leased.items():
            self.pending[one] = turn
        self.leased.clear()

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        if not self.later:
            return
        chosen = data.draw(st.sampled_from(sorted(self.later)))
        scheduled = self.reader.later(0)
        found = [one for one in scheduled if int(one.payload) == chosen.number]
        assert self.frontier.drop(0, [(one, b"") for one in found]) == 1
        assert self.frontier.drop(0, [(one, b"") for one in found]) == 0
        del self.later[chosen]

    @invariant()
    def the_counts_agree(self) -> None:
        [counts] = self.frontier.counts()
        found = counts.pending, counts.later, counts.leased, counts.done
        pending = len(self.pending) + len(self.later)
        assert found == (pending, len(self.later), len(self.leased), self.done)
        left = self.frontier.left_over()
        assert (left is None) == bool(self.pending or self.leased)
        if left is not None:
            assert left[:3] == (0, 0, len(self.later))
            assert self.frontier.finished == (not self.later)
        scheduled = {int(one.payload): one for one in self.reader.later(0)}
        [state] = self.reader.states()
        assert scheduled.keys() == {one.number for one in self.later}
        for one, (due, *_) in self.later.items():
            found_one = scheduled[one.number]
            assert (found_one.slot, found_one.priority) == (one.slot, one.priority)
            expected = pytest.approx(in_units(due - self.now), abs=UNIT / 4)
            assert found_one.not_before == expected
        assert (state.pending, state.later) == (pending, len(self.later))


def test_the_scripts_do_as_a_model(redis_server: RedisServer) -> None:
    class Machine(LaterMachine):
        server = redis_server

    examples = settings().max_examples // 2
    each = settings(stateful_step_count=30, max_examples=examples)
    run_state_machine_as_test(Machine, settings=each)


def test_many_that_are_due_at_once_join_their_slots_in_portions(
    url: str, server: RedisServer, name: str
) -> None:
    with open_one(url, 4) as one:
        one.offer(
            Offer(f"host{n}", b"%d" % n, b"%d" % n, not_before=in_units(1))
            for n in range(1_000)
        )
        assert one.lease(EVERYTHING) == []
        left = one.left_over()
        assert left is not None
        assert left.later == 1_000
        assert abs(left.due - in_units(1)) < UNIT / 4
        server.pass_time(name, UNIT)
        found: list[RedisLease] = []
        while leases := one.lease(EVERYTHING):
            found += leases
        assert sorted(int(lease.payload) for lease in found) == [*range(1_000)]


def test_a_crawl_with_a_request_for_later_is_not_finished(url: str) -> None:
    """Its figures tell requests that were left from requests for later."""
    with open_one(url) as one:
        one.offer(
            [Offer("a", b"1", b"1"), Offer("a", b"2", b"2", not_before=in_units(9))]
        )
        [lease] = one.lease(EVERYTHING)
        assert one.left_over() is None
        one.settle([Settled(lease, left=b"1")])
        left = one.left_over()
        assert left is not None
        assert left[:3] == (1, 0, 1)
        assert not one.finished


def test_a_retry_for_later_on_another_host_moves_when_it_is_due(
    url: str, server: RedisServer, name: str
) -> None:
    with open_one(url, 8) as one:
        one.offer(Offer(f"host{n}", b"%d" % n, b"%d" % n) for n in range(9))
        leases = one.lease(EVERYTHING)
        moved = [
            Offer(f"other{n}", b"", b"again %d" % n, not_before=in_units(1))
            for n in range(len(leases))
        ]
        one.settle(
            Settled(lease, instead=[offer])
            for lease, offer in zip(leases, moved, strict=True)
        )
        assert one.lease(EVERYTHING) == []
        server.pass_time(name, UNIT)
        # Those that lie in the wrong partition move first.
        found = [lease for _ in range(2) for lease in one.lease(EVERYTHING)]
        assert sorted(lease.payload for lease in found) == sorted(
            offer.payload for offer in moved
        )
        assert not any(one._is_misplaced(lease) for lease in found)


def test_the_clock_of_redis_decides(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a worker may be wrong by hours."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 5 * UNIT)
    with open_one(url) as one:
        assert abs(one.clock_ahead - 5 * UNIT) < UNIT / 4
        due = in_units(2) + one.clock_ahead
        one.offer([Offer("a", b"1", b"1", not_before=due)])
        left = one.left_over()
        assert left is not None
        assert abs(left.due - in_units(2)) < UNIT / 4
        with FrontierReader.open(url) as reader:
            [found] = reader.later(0)
        assert found.not_before == pytest.approx(in_units(2), abs=UNIT / 4)
        one.offer([Offer("a", b"2", b"2", not_before=now() - 1)])  # due by Redis' clock
        assert [counts.later for counts in one.counts()] == [1]
        assert [lease.payload for lease in one.lease(9)] == [b"2"]
        monkeypatch.setattr(time, "time", now)  # such as by a time server
        one.look_around()
        assert abs(one.clock_ahead) < UNIT / 4


def test_an_answer_that_is_late_does_not_set_the_clock(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes later than Redis has told the time."""
    now = time.time
    with open_one(url) as one:
        present = one._run_present

        def late(*arguments: Any) -> Any:
            answer = present(*arguments)
            monkeypatch.setattr(time, "time", lambda: now() + 5 * UNIT)
            return answer

        monkeypatch.setattr(one, "_run_present", late)
        one.look_around()
        assert abs(one.clock_ahead) < UNIT / 4


def test_a_frontier_without_requests_for_later_says_so(url: str) -> None:
    with open_one(url) as one:
        assert one.left_over() == LeftOver()
