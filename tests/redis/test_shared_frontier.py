"""A frontier that many workers share: what is seen waits, is handed out, or is done."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.cutting import Cutting
from support.redis_server import LOGGED, RedisServer
from support.repetition import repeated
from support.waiting import until

from bloomdupe import BloomFilter
from bloomdupe.errors import (
    SettingError,
    StoreError,
    StoreMismatchError,
    StoreUnreachableError,
)
from bloomdupe.redis.frontier_header import FORMAT
from bloomdupe.redis.partition import Offer, RedisLease, SeenMark, Settled
from bloomdupe.redis.shared_frontier import SharedFrontier

PARTITIONS = 5
WORKERS = 4
LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test."""


@contextmanager
def worker(url: str, **options: Any) -> Iterator[SharedFrontier]:
    """Yield a worker that owns what is its share at that moment."""
    options = {"partitions": PARTITIONS, "lease_seconds": LONG, **options}
    with SharedFrontier.open(url, 10_000, **options) as frontier:
        frontier.tend()
        yield frontier


def offers(*numbers: int) -> list[Offer]:
    """Return requests on seven hosts."""
    return [Offer(f"host{n % 7}", b"%d" % n, b"request %d" % n) for n in numbers]


def number_of(lease: RedisLease) -> int:
    return int(lease.payload.split()[1])


def dies(_: object) -> None:
    raise KeyboardInterrupt


def until_owned(frontier: SharedFrontier, partitions: int) -> None:
    def owns() -> bool:
        frontier.tend()
        return len(frontier.owned) == partitions

    until(owns)


def drained(frontier: SharedFrontier) -> list[int]:
    """Do all that this worker gets, one at a time; return it in this order."""
    done = []
    while leases := frontier.lease(1, of_each=1):
        assert frontier.settle([(leases[0], [leases[0].payload])]) == []
        frontier.ask_again(leases[0].slot)
        done.append(number_of(leases[0]))
    return done


def test_each_request_is_accepted_and_leased_once(url: str) -> None:
    with worker(url) as one:
        assert one.offer(offers(*range(100), 5)) == [True] * 100 + [False]
        assert one.offer(offers(99, 100)) == [False, True]
        assert sorted(drained(one)) == list(range(101))
        assert one.offer(offers(*range(101))) == [False] * 101
        assert one.lease(10) == []
        assert one.finished
        assert Counter(output.line for output in one.outputs()) == Counter(
            b"request %d" % n for n in range(101)
        )


@pytest.mark.parametrize("fifo", [False, True])
def test_the_order_within_a_slot(url: str, *, fifo: bool) -> None:
    """Priority, then the newest or the oldest; start requests last, oldest first."""
    rng = random.Random(1)
    pushed = [
        (rng.choice([-300, 0, 0, 7, 1_000_000]), rng.random() < 0.3) for _ in range(60)
    ]

    def turn(number: int) -> tuple[int, bool, int]:
        priority, start = pushed[number]
        return -priority, start, number if fifo or start else -number

    with worker(url, fifo=fifo) as one:
        one.offer(
            Offer("host", b"%d" % n, b"request %d" % n, priority, start)
            for n, (priority, start) in enumerate(pushed)
        )
        assert drained(one) == sorted(range(60), key=turn)


def test_slots_have_their_turns(url: str) -> None:
    with worker(url, partitions=1) as one:
        one.offer(offers(*range(70)))
        assert Counter(lease.slot for lease in one.lease(14, of_each=2)) == Counter(
            {f"host{n}": 2 for n in range(7)}
        )
        assert one.lease(100) == []  # its owner has enough of each
        one.ask_again("host3")
        one.ask_again("a host that nobody knows")
        assert Counter(lease.slot for lease in one.lease(100)) == {"host3": 8}


def test_requests_in_progress_of_a_leaving_worker_are_pending_again(url: str) -> None:
    with worker(url) as one:
        one.offer(offers(*range(30)))
        under_way = one.lease(20)
        one.settle([(lease, [b"done"]) for lease in under_way[:5]])
        assert not one.finished
        counts = one.counts()
        leased = sum(c.leased for c in counts)
        assert leased >= 15  # each partition is asked for one request at least
        assert sum(c.pending for c in counts) + leased == 25
        assert (sum(c.pushed for c in counts), sum(c.done for c in counts)) == (30, 5)
    with worker(url) as two:
        assert sorted(drained(two)) == sorted(
            set(range(30)) - {number_of(lease) for lease in under_way[:5]}
        )
        assert two.finished


def test_a_retry_replaces_the_failed_request(url: str) -> None:
    """In one step: both are never pending at the same time."""
    with worker(url) as one:
        one.offer(offers(*range(10)))
        failed, done = one.lease(2)
        retry = Offer(failed.slot, b"not marked", b"request 77", 5)
        both = [Settled(failed, [b"line"], [retry]), Settled(done)]
        assert one.settle(both) == []
        held = one.lease(100)
        assert one.settle(both) == []  # once more, as if the answer had been lost
        assert one.settle((lease, [lease.payload]) for lease in held) == []
        assert Counter(map(number_of, held))[77] == 1
        for lease in held:
            one.ask_again(lease.slot)
        left = set(range(10)) - {number_of(failed), number_of(done)}
        assert sorted([*map(number_of, held), *drained(one)]) == [*sorted(left), 77]
        assert one.finished
        counts = one.counts()
        assert sum(c.pushed for c in counts) == sum(c.done for c in counts) == 11
        lines = Counter(output.line for output in one.outputs())
        assert lines[b"line"] == lines[b"request 77"] == 1


def test_a_refused_settlement_stores_no_retry(url: str) -> None:
    with worker(url, partitions=1, lease_seconds=0.05) as one:
        one.offer(offers(1))
        [failed] = one.lease(1)
        with worker(url, partitions=1) as two:
            until_owned(two, 1)  # so the lease has run out
            retry = Offer(failed.slot, b"not marked", b"request 77")
            assert one.settle([Settled(failed, [], [retry])]) == [failed]
            assert drained(two) == [1]
            assert two.finished


def test_a_further_mark_comes_with_an_offer(url: str) -> None:
    with worker(url) as one:
        page, other = SeenMark("host", b"page"), SeenMark("host", b"other")
        request = Offer("host", b"start 1", b"request 1", also=page)
        assert one.offer([request]) == [True]
        assert one.knows([page, other]) == [True, False]
        assert one.offer([request._replace(also=other)]) == [False]
        assert one.knows([page, other]) == [True, True]
        assert one.offer([Offer("host", b"page", b"")]) == [False]
        assert drained(one) == [1]
        assert sum(counts.pushed for counts in one.counts()) == 1


def visited(page: RedisLease) -> Settled:
    """Return a settlement with a next visit, which claims a key for all pages."""
    name = b"visit %b" % page.payload
    return Settled(page, instead=[Offer("host", b"key", name, claimed_as=name)])


def test_of_the_requests_that_claim_a_key_one_is_accepted(url: str) -> None:
    with worker(url) as one:
        one.offer(Offer("host", b"%d" % n, b"%d" % n) for n in range(9))
        pages = one.lease(9)
        assert one.settle(map(visited, pages[:3])) == []
        assert one.settle(map(visited, pages[3:])) == []
        assert sum(counts.pending for counts in one.counts()) == 1
        one.ask_again("host")
        (visit,) = one.lease(9)
        assert visit.payload == b"visit %b" % pages[0].payload
        assert one.knows([SeenMark("host", b"key")]) == [True]
        assert one.settle([Settled(visit, instead=[visit.again])]) == []
        assert sum(counts.pending for counts in one.counts()) == 1


def test_a_key_that_was_claimed_before_a_crash_is_claimed_again(url: str) -> None:
    """By the same request only, also if another request is done before it."""
    with worker(url, partitions=1, lease_seconds=0.05) as one:
        one.offer([Offer("host", b"a", b"a"), Offer("host", b"b", b"b")])
        (claims, *_), (other, *_) = (visited(page).instead for page in one.lease(2))
        assert one.claim([claims]) == [True]
        with worker(url, partitions=1) as two:
            until_owned(two, 1)
            again = {lease.payload: visited(lease) for lease in two.lease(2)}
            assert two.settle([again[other.payload[-1:]]]) == []
            assert two.settle([again[claims.payload[-1:]]]) == []
            two.ask_again("host")
            assert [lease.payload for lease in two.lease(9)] == [claims.payload]


def test_a_filter_grows_with_claims(url: str) -> None:
    with SharedFrontier.open(url, 100, partitions=1) as one:
        claims = [
            Offer("host", b"%d" % n, b"", claimed_as=b"by %d" % n) for n in range(300)
        ]
        assert one.claim(claims) == [True] * 300
        assert one.claim(claims) == [True] * 300
        others = [claim._replace(claimed_as=b"other") for claim in claims]
        assert one.claim(others) == [False] * 300
        assert len(one._seen_in([0])[0].info().layers) > 1


def test_a_retry_on_another_host_moves_to_its_partition(url: str) -> None:
    """Never are both to be done; and it moves once, if its worker dies meanwhile."""
    hosts = [f"other{n}" for n in range(20)]
    with worker(url, lease_seconds=0.05) as one:
        one.offer([Offer("host", b"%d" % n, b"request") for n in range(20)])
        failed = one.lease(20, of_each=20)
        retries = [Offer(host, b"", b"retry") for host in hosts]
        both = zip(failed, retries, strict=True)
        assert one.settle(Settled(old, instead=[new]) for old, new in both) == []
        assert sorted(c.pending for c in one.counts()) == [0, 0, 0, 0, 20]
        one.settle = dies  # type: ignore[method-assign,assignment]
        with pytest.raises(KeyboardInterrupt):
            one.lease(100)
        with worker(url) as two:
            until_owned(two, PARTITIONS)
            moved = []
            while not two.finished:
                some = two.lease(100)
                two.settle((lease, []) for lease in some)
                moved += some
    assert sorted(lease.slot for lease in moved) == sorted(hosts)
    assert len({lease.partition for lease in moved}) == PARTITIONS


def test_a_lease_that_runs_out(url: str) -> None:
    """Until then no other worker gets its requests; its late answer is refused."""
    with ExitStack() as stack:
        late = stack.enter_context(worker(url, lease_seconds=0.05))
        late.offer(offers(*range(30)))
        held = late.lease(30)
        assert len(held) == 30
        other = stack.enter_context(worker(url))
        until_owned(other, PARTITIONS)
        assert sorted(drained(other)) == list(range(30))
        refused = late.settle([(lease, [b"too late"]) for lease in held])
        assert refused == held
        lines = [output.line for output in other.outputs()]
        assert len(lines) == 30
        assert b"too late" not in lines


def test_an_old_token_is_refused(url: str) -> None:
    """The same worker has the partition again, and the request waits or is done."""
    with worker(url, partitions=1) as one:
        one.offer(offers(1, 2))
        held = one.lease(2)
        with worker(url, partitions=1) as two:
            one.tend()
            two.tend()
        for lease in held:
            one.settle([(lease, [])])
    with worker(url, partitions=1, worker="w") as first:
        first.offer(offers(3))
        (early,) = first.lease(1)
        with SharedFrontier.open(url, partitions=1, worker="w") as same:
            same.tend()  # it does not know that it is the owner
            assert same.owned == [0]
            (again,) = same.lease(1)
            assert again.payload == early.payload
            assert first.settle([(early, [b"no"])]) == [early]
            assert same.settle([(again, [b"yes"])]) == []
        assert [o.line for o in first.outputs()] == [b"yes"]


def test_partitions_are_shared_out(url: str) -> None:
    with ExitStack() as stack:
        crew = [stack.enter_context(worker(url, partitions=12)) for _ in range(3)]
        for _ in range(2):  # the first worker gives back, the rest lease
            for one in crew:
                one.tend()
        assert [len(one.owned) for one in crew] == [4, 4, 4]
        assert sorted(n for one in crew for n in one.owned) == list(range(12))
        crew[0].close()
        for one in crew[1:]:
            one.tend()
        assert [len(one.owned) for one in crew[1:]] == [6, 6]


def test_a_partition_is_given_back_when_no_request_of_it_is_in_progress(
    url: str,
) -> None:
    with worker(url, partitions=2) as one:
        one.offer(offers(*range(14)))
        held = one.lease(14)
        with worker(url, partitions=2) as two:
            one.tend()
            two.tend()
            assert (len(one.owned), len(two.owned)) == (2, 0)
            assert one.settle([(lease, []) for lease in held]) == []
            two.tend()
            assert (len(one.owned), len(two.owned)) == (1, 1)


def on_many_hosts(count: int) -> list[Offer]:
    """Return requests on so many hosts that each partition has some."""
    return [Offer(f"host{n}", b"%d" % n, b"request %d" % n) for n in range(count)]


def test_a_partition_is_given_back_when_its_owner_leases_no_more(
    url: str,
) -> None:
    with worker(url) as one:
        one.offer(on_many_hosts(70))
        leases = one.lease(70)
        with worker(url) as two:
            one.tend()
            assert len(one.returning) == 2
            theirs = [lease for lease in leases if lease.partition in one.returning]
            mine = [lease for lease in leases if lease.partition not in one.returning]
            in_progress = theirs.pop()
            one.not_begun(theirs + mine)
            assert one.returning == {in_progress.partition}
            assert one.settle([(in_progress, [])]) == []
            assert not one.returning
            # Requests of a partition that stays are this worker's to settle.
            assert one.settle([(lease, []) for lease in mine]) == []
            two.tend()
            assert len(two.owned) == 2
            assert {number_of(lease) for lease in two.lease(70)} == {
                number_of(lease) for lease in theirs
            }


def test_a_leaving_worker_gives_back_partitions_that_it_owes(
    url: str,
) -> None:
    """A partition without leased requests is given back by any worker that leaves."""
    with worker(url) as one:
        one.offer(on_many_hosts(70))
        leases = one.lease(70)
        with worker(url):
            one.tend()
            leaving = one.returning
        one.tend()  # the other worker is gone again
        one.not_begun([lease for lease in leases if lease.partition in leaving])
        one.tend()
        assert len(one.owned) == PARTITIONS
        assert {lease.partition for lease in one.lease(70)} == {
            lease.partition for lease in leases if lease.partition in leaving
        }


def test_the_time_of_the_last_owner_is_known(url: str) -> None:
    with worker(url) as one:
        one.offer(offers(*range(70)))
        handed = one.lease(20)
        assert one.last_owner_until(handed[0]) is None
        before = time.monotonic()
    with worker(url) as two:
        taken = time.monotonic()
        leases = two.lease(70)
        assert len(leases) == 70
        for lease in leases:
            ended = two.last_owner_until(lease)
            if lease.partition not in {each.partition for each in handed}:
                assert ended is None
            else:
                assert ended is not None
                # Redis counts in milliseconds.
                assert before - 0.002 <= ended <= taken


def test_the_end_is_seen_by_all_and_not_before(url: str) -> None:
    """Workers crawl a random graph in any order; a model knows what is pending."""
    rng = random.Random(4)
    links = {n: [rng.randrange(300) for _ in range(3)] for n in range(300)}
    owed, seen = {0}, {0}
    with ExitStack() as stack:
        crew = [stack.enter_context(worker(url)) for _ in range(3)]
        for one in [*crew, *crew]:
            one.tend()
        crew[0].offer(offers(0))
        held: list[tuple[SharedFrontier, RedisLease]] = []
        done = Counter[int]()
        while owed:
            assert not rng.choice(crew).finished
            one = rng.choice(crew)
            held += [(one, lease) for lease in one.lease(rng.randint(1, 9), 2)]
            for owner, lease in held:
                owner.ask_again(lease.slot)
            rng.shuffle(held)
            for owner, lease in [held.pop() for _ in range(rng.randint(0, len(held)))]:
                number = number_of(lease)
                new = set(links[number]) - seen
                rng.choice(crew).offer(offers(*links[number]))
                seen |= new
                owed |= new
                assert owner.settle([(lease, [b"%d" % number])]) == []
                owed.remove(number)
                done[number] += 1
        assert all(one.finished for one in crew)
        assert done == Counter(seen)


def test_layers_grow(url: str) -> None:
    with SharedFrontier.open(url, 10, partitions=2, lease_seconds=LONG) as one:
        one.tend()
        assert one.offer(offers(*range(600))).count(True) == 600
        assert one.offer(offers(*range(600))).count(True) == 0
        assert sorted(drained(one)) == list(range(600))


def test_payloads_and_names_of_any_bytes(url: str) -> None:
    odd = [
        Offer("", b"", b""),
        Offer("host\x00name", b"\xff" * 200, bytes(range(256)), -(2**31)),
        Offer("münchen.de", b"1", b"x" * 1_000_000, 2**31),
    ]
    with worker(url) as one:
        assert one.offer(odd) == [True] * 3
        leases = one.lease(10)
        assert sorted((x.slot, x.payload, x.priority) for x in leases) == sorted(
            (x.slot, x.payload, x.priority) for x in odd
        )
        line = bytes(range(256)) * 100
        assert one.settle((lease, [line, b""]) for lease in leases) == []
        assert [o.line for o in one.outputs()] == [line, b""] * 3


@pytest.mark.parametrize("slot", ["x" * 2_000, "\ud800", "\U0001f40c" * 300])
def test_a_slot_may_have_any_name(url: str, slot: str) -> None:
    with worker(url) as one:
        given = [Offer(slot, b"%d" % n, b"request %d" % n) for n in range(3)]
        assert one.offer([*given, Offer(slot + "y", b"y", b"request 3")]) == [True] * 4
        assert one.knows([SeenMark(slot, b"0")]) == [True]
        with worker(url) as two:
            two.tend()
            one.tend()
            done = drained(one) + drained(two)
        one.tend()
        assert sorted(done + drained(one)) == list(range(4))
        assert one.finished


# Trouble


@pytest.fixture
def between(server: RedisServer) -> Iterator[Cutting]:
    cutting = Cutting(server)
    yield cutting
    cutting.close()


@pytest.mark.parametrize("how", ["cut", "silent"])
def test_every_call_may_be_repeated_when_its_answer_is_lost(
    between: Cutting, server: RedisServer, name: str, how: str
) -> None:
    url = f"redis://127.0.0.1:{between.port}#{name}"
    with worker(server.url(f"{name} before")) as other:
        # So Redis knows the scripts. Else the lost answers would say that it does not.
        other.offer(offers(1))
        assert drained(other) == [1]

    def lose(call: Callable[[], object]) -> None:
        between.lose(how, one._server._client)
        with pytest.raises(StoreUnreachableError):
            call()
        between.until_lost()

    def lost(call: Callable[[], Any]) -> Any:
        lose(call)
        return call()

    with SharedFrontier.open(url, 1_000, partitions=1, lease_seconds=LONG) as one:
        lost(one.tend)
        assert one.owned == [0]
        assert lost(lambda: one.offer(offers(*range(9)))) == [False] * 9
        first = lost(lambda: one.lease(3))
        assert len(first) == 3
        assert lost(lambda: one.settle([(x, [x.payload]) for x in first])) == []
        for lease in first:
            one.ask_again(lease.slot)
        # Leases and settlements without an answer are known at the next call.
        lose(lambda: one.lease(2))
        lose(lambda: one.settle([(first[0], [b"again"])]))
        rest = one.lease(1) + one.lease(100)
        assert len(rest) == 6
        lose(lambda: one.settle([(x, [x.payload]) for x in rest[:3]]))
        assert one.settle([(x, [x.payload]) for x in rest]) == []
        assert one.finished
        one.offer(offers(9))
        [last] = one.lease(1)
        lost(lambda: one.settle([Settled(last, [last.payload], left=b"again")]))
        assert Counter(output.line for output in one.outputs()) == Counter(
            offer.payload for offer in offers(*range(10))
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitions": 6}, "partitions = 5, but partitions = 6"),
        ({"fpp": 0.5}, "fpp = 1e-06, but fpp = 0.5"),
        ({"capacity": 7}, "capacity = 10000, but capacity = 7"),
    ],
)
def test_other_parameters_are_refused(
    url: str, options: dict[str, Any], message: str
) -> None:
    with (
        worker(url),
        pytest.raises(StoreMismatchError, match=message),
    ):
        SharedFrontier.open(url, **{"partitions": PARTITIONS, **options})


def test_impossible_parameters_are_refused(url: str) -> None:
    wrong: list[dict[str, Any]] = [
        {"partitions": 0}, {"partitions": 10**6}, {"lease_seconds": 0.0},
    ]  # fmt: skip
    for options in wrong:
        with pytest.raises(SettingError, match=next(iter(options))):
            SharedFrontier.open(url, 100, **options)
    with pytest.raises(StoreError, match="no crawl of this name"):
        SharedFrontier.open(url)
    with BloomFilter.open(url, 100), pytest.raises(StoreMismatchError, match="else"):
        SharedFrontier.open(url, 100)


def test_a_crawl_may_be_named_as_a_part_of_another(
    server: RedisServer, name: str
) -> None:
    with (
        SharedFrontier.open(server.url(name), 100, partitions=2) as one,
        SharedFrontier.open(server.url(f"{name}:0"), 100, partitions=2) as two,
    ):
        one.offer(offers(*range(9)))
        assert two.finished
        assert not one.finished


def test_two_workers_may_begin_a_crawl_at_the_same_moment(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one begins it after this one has found no crawl."""

    def late(_: int) -> int:
        monkeypatch.undo()
        SharedFrontier.open(url, 100, partitions=PARTITIONS).close()
        return 0

    monkeypatch.setattr("bloomdupe.redis.frontier_header.secrets.randbelow", late)
    SharedFrontier.open(url, 100, partitions=PARTITIONS).close()


@pytest.mark.parametrize("written", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused(
    server: RedisServer, name: str, written: int
) -> None:
    with worker(server.url(name)), server.client() as client:
        client.hset(f"bloomdupe:{{{name}}}", "frontier", written)
        with pytest.raises(StoreMismatchError, match=f"has format {written}"):
            SharedFrontier.open(server.url(name))


def test_a_frontier_that_was_made_in_part_is_made_whole(
    server: RedisServer, name: str
) -> None:
    with worker(server.url(name)), server.client() as client:
        pass
    client.hdel(f"bloomdupe:{{{name}}}", "whole")
    client.delete(f"bloomdupe:{{{name}}}:4")
    with worker(server.url(name)) as one:
        assert one.offer(offers(*range(30))) == [True] * 30


def test_a_deleted_partition_is_not_taken_for_an_empty_partition(
    server: RedisServer, name: str
) -> None:
    """A Redis that was started without its data must not end a crawl as finished."""
    one = SharedFrontier.open(server.url(name), 100, partitions=PARTITIONS)
    one.tend()
    one.offer(offers(*range(30)))
    held = one.lease(3)
    with server.client() as client:
        client.flushall()
    calls = (
        one.tend,
        lambda: one.lease(3),
        lambda: one.settle([(held[0], [])]),
        lambda: one.offer(offers(99)),
        lambda: one.finished,
        one.close,
    )
    for call in calls:
        with pytest.raises(StoreError, match="gone"):
            call()
    with pytest.raises(StoreError, match="no crawl of this name"):
        SharedFrontier.open(server.url(name), partitions=PARTITIONS)


def test_a_server_that_comes_back(tmp_path: Path) -> None:
    with RedisServer(tmp_path, *LOGGED) as server, worker(server.url("job")) as one:
        one.offer(offers(*range(40)))
        held = one.lease(10)
        server.kill()
        with pytest.raises(StoreUnreachableError, match="try again"):
            one.lease(5)
        with pytest.raises(StoreUnreachableError, match="try again"):
            one.settle([(held[0], [])])
        server.start()
        held += one.lease(5)
        assert one.settle((lease, []) for lease in held) == []
        for lease in held:
            one.ask_again(lease.slot)
        assert len(drained(one)) == 40 - len(held)
        assert one.finished


def test_requests_lost_by_a_server_that_goes_back_are_offered_again(
    tmp_path: Path,
) -> None:
    """It is offered before any request is settled, and before an error is seen."""
    with RedisServer(tmp_path, *LOGGED) as server, worker(server.url("job")) as one:
        one.offer(offers(0, 1))
        parent, other = one.lease(2)
        back = server.written
        one.offer(offers(2))  # of no request
        one.offer(offer._replace(of=parent) for offer in offers(*range(10, 20)))
        one.offer(offer._replace(of=other) for offer in offers(*range(20, 30)))
        one.settle([(other, [b"other"])])
        server.kill()
        server.cut_back(*back)
        server.start()
        with pytest.raises(StoreUnreachableError, match="connection was lost"):
            one.settle([(parent, [b"parent"])])
        one.settle([(parent, [b"parent"])])
        # Redis does not know that the other one was settled, so it is done again.
        done = Counter[int]()
        while not one.finished:
            one.tend()
            done.update(drained(one))
        assert done == Counter([number_of(other), 2, *range(10, 20)])


def test_a_stop_counts_after_a_stop_that_redis_has_lost(
    server: RedisServer, name: str, url: str
) -> None:
    def stop(frontier: SharedFrontier) -> bool:
        assert frontier.stop_workers() == 1
        frontier.tend()
        return frontier.asked_to_stop

    with worker(url) as one:
        assert stop(one)
    with worker(url) as two, server.client() as client:
        client.hdel(f"bloomdupe:{{{name}}}", "stops")
        two.tend()
        assert not two.asked_to_stop
        assert stop(two)


@pytest.mark.parametrize("seed", repeated(range(2)))
def test_work_is_shared_and_stays_where_it_is(url: str, seed: int) -> None:
    """The pending requests are shared, and not the partitions."""
    rng = random.Random(seed)
    hosts = [f"host{number}" for number in range(rng.choice([20, 60]))]
    size = 16
    with ExitStack() as stack:
        crew = [
            stack.enter_context(worker(url, partitions=size)) for _ in range(WORKERS)
        ]
        for _ in range(3):
            for one in crew:
                one.tend()
        assert [len(one.owned) for one in crew] == [size // WORKERS] * WORKERS
        # Few hosts have most of the requests.
        crew[0].offer(
            Offer(hosts[int(len(hosts) * rng.random() ** 3)], b"%d" % number, b"")
            for number in range(6_000)
        )
        until(lambda: is_shared(crew, size))
        pending = [counts.pending for counts in crew[0].counts()]
        loads = [sum(pending[number] for number in one.owned) for one in crew]
        assert sum(loads) == 6_000
        fair = 6_000 / WORKERS
        assert max(loads) <= max(1.5 * fair, *pending)


@pytest.mark.parametrize("host", repeated(["host", "host0", "host1", "host2"]))
def test_each_worker_that_joins_owns_a_partition(url: str, host: str) -> None:
    """Also if no worker has a whole partition more than its share of the work."""
    size = 8
    with ExitStack() as stack:
        crew = [stack.enter_context(worker(url, partitions=size))]
        crew[0].offer([Offer(host, b"page", b"")])
        while len(crew) < size:
            crew.append(stack.enter_context(worker(url, partitions=size)))
            until(lambda: is_shared(crew, size))
            if size % len(crew) == 0:
                assert {len(one.owned) for one in crew} == {size // len(crew)}


def is_shared(crew: list[SharedFrontier], size: int) -> bool:
    """Let the workers tend; whether each partition has a worker, and stays there."""
    owned = tended(crew)
    everywhere = sorted(number for numbers in owned for number in numbers)
    return everywhere == [*range(size)] and owned == tended(crew) == tended(crew)


def tended(crew: list[SharedFrontier]) -> list[list[int]]:
    """Let each worker tend; return the partitions of each."""
    for one in crew:
        one.tend()
    return [one.owned for one in crew]
