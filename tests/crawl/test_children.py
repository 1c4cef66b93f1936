"""Children of requests in progress, as they are kept from checkpoint to checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from bloomdupe.crawl.leases import children as module
from bloomdupe.crawl.leases.children import Children, CutShort
from bloomdupe.store.participant import Part


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 3)


class Parent:
    """Stands for a request in progress: of a lease, children need only this."""

    answer, items, whole_before = "digest", 2, 0
    """When it is cut short."""

    def __init__(self, key: bytes = b"parent") -> None:
        self.name = key


class Job:
    """The children that a store has, and those of the run that goes on."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.parent: Any = Parent()
        self.children = Children()

    def add(self, *names: bytes) -> None:
        for name in names:
            self.children.add(self.parent, name)

    def commit(self, part: Part | None = None) -> int:
        """Prepare and commit like a checkpoint; return how many values were written."""
        part = part or self.children.prepare()
        assert part.entries == {}
        self.blobs.update(part.blobs)
        for name in part.gone:
            del self.blobs[name]
        part.done()
        return len(part.blobs)

    def crash(self, key: bytes = b"parent") -> None:
        """Begin the next run with a request that is in progress again."""
        self.parent = Parent(key)
        self.children = Children()
        self.children.restore(self.blobs)

    def recognises(self, *names: bytes) -> list[bool]:
        return [self.children.recognises(self.parent, name) for name in names]


@pytest.fixture
def job() -> Job:
    return Job()


def test_children_are_recognised_as_often_as_they_came(job: Job) -> None:
    many = [b"%d" % number for number in range(7)]  # in three values
    job.add(b"a", b"b", b"a", *many)
    job.commit()
    job.add(b"c")  # in no checkpoint
    job.crash(b"another request")
    assert job.recognises(b"a", b"b") == [False, False]
    job.crash()
    assert job.recognises(b"a", b"a", b"a", b"b", b"c") == [
        True, True, False, True, False,
    ]  # fmt: skip
    assert job.recognises(*many, *many) == [True] * 7 + [False] * 7


@pytest.mark.parametrize("crashes", [False, True])
def test_a_checkpoint_writes_only_the_last_of_many(job: Job, crashes: bool) -> None:
    names = [b"%d" % number for number in range(10)]
    for number, name in enumerate(names):
        if crashes:
            job.crash()
            assert job.recognises(*names) == [n < number for n in range(10)]
        job.add(name)
        assert job.commit() == 1
        assert not job.children.changed
    assert len(job.blobs) == 4
    job.crash()
    assert all(job.recognises(*names))
    # With their parent they are forgotten.
    job.children.forget(job.parent.name)
    job.commit()
    assert job.blobs == {}
    assert not job.children.changed


def test_a_finished_crawl_keeps_no_children(job: Job) -> None:
    """Neither those of a page that never came again."""
    job.add(b"a")
    job.commit()
    job.add(b"b")
    job.children.end()
    job.commit()
    assert job.blobs == {}
    assert not job.children.changed


def test_changes_during_a_commit_belong_to_the_next_checkpoint(
    job: Job,
) -> None:
    job.add(b"a")
    part = job.children.prepare()
    job.add(b"b")
    job.commit(part)
    assert job.children.changed
    job.commit()
    job.crash()
    assert job.recognises(b"a", b"b") == [True, True]


def test_a_parent_settled_during_a_commit_leaves_no_children(job: Job) -> None:
    job.add(b"a")
    part = job.children.prepare()
    job.children.forget(job.parent.name)
    job.commit(part)
    job.commit()
    assert job.blobs == {}


def test_a_checkpoint_that_fails_changes_nothing(job: Job) -> None:
    job.add(b"a")
    job.children.prepare()
    job.children.prepare()
    assert job.commit() == 1
    job.crash()
    assert job.recognises(b"a") == [True]


@pytest.mark.parametrize("left", [b"", b"bcde"])
def test_a_retry_inherits_the_stored_children(job: Job, left: bytes) -> None:
    """A retry of a parent takes the children that an earlier run has stored."""
    job.add(b"a", *(bytes([name]) for name in left))
    job.commit()
    job.crash()
    assert job.recognises(b"a") == [True]
    assert job.children.owed == bool(left)
    job.children.forget(job.parent.name, passed_on=True)
    job.commit()
    assert bool(job.blobs) == bool(left)
    for _ in range(2):  # it may be killed, too
        job.crash()
        assert job.recognises(b"a", b"b", b"e") == [False, bool(left), bool(left)]
    job.children.forget(job.parent.name)
    job.commit()
    assert job.blobs == {}


def test_a_request_cut_short_during_a_commit_belongs_to_the_next_checkpoint() -> None:
    cut_short = CutShort()
    one: Any = Parent(b"1")
    other: Any = Parent(b"2")
    cut_short.note(one, {"digest": 2})
    part = cut_short.prepare()
    cut_short.note(other, {"digest": 2})
    part.done()
    changes = [cut_short.changed]
    part = cut_short.prepare()
    part.done()
    changes.append(cut_short.changed)
    assert changes == [True, False]
    again = CutShort()
    again.restore(part.entries["cut_short"])
    for lease in (one, other):
        assert again.answers_of(lease) == {"digest": 2}
