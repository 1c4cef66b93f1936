"""Children of requests in progress, as they are kept from checkpoint to checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from bloomdupe import BloomFilter
from bloomdupe.crawl.leases import children as module
from bloomdupe.crawl.leases.children import Children
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store.format import request_key

if TYPE_CHECKING:
    from bloomdupe.crawl.leases.lease import Lease

Blobs = dict[str, bytes]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 3)


def lease(owed: Frontier) -> Lease:
    """Return what stands for a request: of a lease, children need only this."""
    owed.push("host", 0, b"x")
    entry = owed.lease()
    assert entry is not None
    return cast("Lease", Parent(request_key(entry.queue.number, entry.rank)))


class Parent:
    def __init__(self, key: bytes) -> None:
        self.name = key
        self.passed_on = False


def commit(children: Children, blobs: Blobs) -> int:
    """Do with the blobs what a checkpoint does; return how many were written."""
    part = children.prepare()
    assert part.entries == {}
    blobs.update(part.blobs)
    for name in part.gone:
        del blobs[name]
    part.done()
    return len(part.blobs)


def after_a_crash(blobs: Blobs) -> Children:
    children = Children()
    children.restore(blobs)
    return children


def test_an_earlier_runs_children_are_recognised_as_often_as_they_came() -> None:
    parent = lease(Frontier(BloomFilter(100)))
    children, blobs = Children(), Blobs()
    for name in (b"a", b"b", b"a"):
        children.add(parent, name)
    commit(children, blobs)
    children.add(parent, b"c")  # in no checkpoint
    again = after_a_crash(blobs)
    again.recall(parent)
    found = [again.recognises(parent, name) for name in (b"a", b"a", b"a", b"b", b"c")]
    assert found == [True, True, False, True, False]


def test_another_requests_children_are_not_recognised() -> None:
    owed = Frontier(BloomFilter(100))
    parent, other = lease(owed), lease(owed)
    children, blobs = Children(), Blobs()
    children.add(parent, b"a")
    commit(children, blobs)
    again = after_a_crash(blobs)
    again.recall(other)
    assert not again.recognises(other, b"a")


def test_a_checkpoint_writes_only_the_last_children_of_many() -> None:
    parent = lease(Frontier(BloomFilter(100)))
    children, blobs = Children(), Blobs()
    for number in range(10):
        children.add(parent, b"%d" % number)
        assert commit(children, blobs) == 1
        assert not children.changed
    assert len(blobs) == 4
    again = after_a_crash(blobs)
    again.recall(parent)
    assert all(again.recognises(parent, b"%d" % number) for number in range(10))


def test_they_go_on_over_several_crashes() -> None:
    parent = lease(Frontier(BloomFilter(100)))
    blobs = Blobs()
    for number in range(7):
        children = after_a_crash(blobs)
        children.recall(parent)
        assert all(children.recognises(parent, b"%d" % n) for n in range(number))
        assert not children.recognises(parent, b"%d" % number)
        children.add(parent, b"%d" % number)
        commit(children, blobs)


def test_with_their_parent_they_are_forgotten() -> None:
    parent = lease(Frontier(BloomFilter(100)))
    children, blobs = Children(), Blobs()
    for number in range(5):
        children.add(parent, b"%d" % number)
        commit(children, blobs)
    children.forget(parent)
    commit(children, blobs)
    assert blobs == {}
    assert not children.changed


def test_what_comes_while_a_checkpoint_is_committed_waits_for_the_next() -> None:
    parent = lease(Frontier(BloomFilter(100)))
    children, blobs = Children(), Blobs()
    children.add(parent, b"a")
    part = children.prepare()
    children.add(parent, b"b")
    blobs.update(part.blobs)
    part.done()
    assert children.changed
    commit(children, blobs)
    again = after_a_crash(blobs)
    again.recall(parent)
    assert again.recognises(parent, b"a")
    assert again.recognises(parent, b"b")


def test_a_parent_settled_while_they_are_committed_leaves_nothing() -> None:
    parent = lease(Frontier(BloomFilter(100)))
    children, blobs = Children(), Blobs()
    children.add(parent, b"a")
    part = children.prepare()
    children.forget(parent)
    blobs.update(part.blobs)
    part.done()
    commit(children, blobs)
    assert blobs == {}


def test_a_checkpoint_that_fails_changes_nothing() -> None:
    parent = lease(Frontier(BloomFilter(100)))
    children, blobs = Children(), Blobs()
    children.add(parent, b"a")
    children.prepare()
    children.prepare()
    assert commit(children, blobs) == 1
    again = after_a_crash(blobs)
    again.recall(parent)
    assert again.recognises(parent, b"a")


def test_an_heir_goes_on_with_what_was_left() -> None:
    """A retry of a parent whose children an earlier run has taken in."""
    parent = lease(Frontier(BloomFilter(100)))
    children, blobs = Children(), Blobs()
    for name in (b"a", b"b", b"c", b"d", b"e"):
        children.add(parent, name)
    commit(children, blobs)
    children = after_a_crash(blobs)
    children.recall(parent)
    assert children.recognises(parent, b"a")
    assert children.owes(parent)
    parent.passed_on = True
    children.forget(parent)
    commit(children, blobs)
    for _ in range(2):  # it may be killed, too
        children = after_a_crash(blobs)
        heir = cast("Lease", Parent(parent.name))
        children.recall(heir)
        found = [children.recognises(heir, name) for name in (b"a", b"b", b"e")]
        assert found == [False, True, True]
    children.forget(heir)
    commit(children, blobs)
    assert blobs == {}


def test_who_has_gone_through_all_of_it_bequeaths_nothing() -> None:
    parent = lease(Frontier(BloomFilter(100)))
    children, blobs = Children(), Blobs()
    children.add(parent, b"a")
    commit(children, blobs)
    children = after_a_crash(blobs)
    children.recall(parent)
    assert children.recognises(parent, b"a")
    assert not children.owes(parent)
    parent.passed_on = True
    children.forget(parent)
    commit(children, blobs)
    assert blobs == {}
