"""Requests that are removed between two runs, judged by a model.

The model is plain Python: the requests that are pending, in progress, or done.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.pending_requests import count_pending, portions

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.frontier.slot_queue import Entry

STEPS = 300


class Wall:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Crawl:
    """A frontier, and the requests that it must have."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.path, self.rng, self.wall = path, rng, Wall()
        self.pending: set[bytes] = set()
        self.leased: dict[bytes, Entry] = {}
        self.pushed = 0
        self.open()

    def open(self) -> None:
        self.seen = BloomFilter.open(self.path, 1_000)
        self.frontier = Frontier(self.seen, wall=self.wall)

    def push(self) -> None:
        self.pushed += 1
        payload = b"%d" % self.pushed
        later = self.rng.random() < 0.3
        due = self.wall.now + self.rng.choice([2, 5, 1_000]) if later else None
        slot = self.rng.choice("abc")
        self.frontier.push(slot, self.rng.randrange(3), payload, not_before=due)
        self.pending.add(payload)

    def lease(self) -> None:
        entry = self.frontier.lease()
        if entry is not None:
            assert entry.payload is not None
            self.pending.remove(entry.payload)
            self.leased[entry.payload] = entry

    def settle(self) -> None:
        if self.leased:
            name = self.rng.choice(sorted(self.leased))
            self.frontier.settle(self.leased.pop(name))

    def remove(self) -> None:
        """Remove a third of what is pending; some of it was pushed just now."""
        self.kill()
        self.push()
        self.frontier.checkpoint()
        store = self.frontier.store
        assert store is not None
        for found in portions(store):
            chosen = [one for one in found if self.rng.random() < 0.33]
            self.frontier.remove(chosen)
            self.frontier.checkpoint()
            self.pending -= {one.payload for one in chosen}

    def kill(self) -> None:
        """Lose everything since a checkpoint, which is empty."""
        self.frontier.checkpoint()
        self.seen.close()
        self.pending |= self.leased.keys()
        self.leased.clear()
        self.open()

    def wait(self) -> None:
        self.wall.now += 2

    def check(self) -> None:
        assert self.frontier.pending + self.frontier.waiting == len(self.pending)
        assert self.frontier.leased == len(self.leased)


@pytest.mark.parametrize("seed", range(3))
def test_only_removed_requests_are_gone(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    crawl = Crawl(tmp_path / "store", rng)
    steps = [crawl.push] * 8 + [crawl.lease] * 4 + [crawl.settle] * 3
    steps += [crawl.remove, crawl.kill, crawl.wait]
    for _ in range(STEPS):
        rng.choice(steps)()
        crawl.check()
    crawl.kill()
    assert crawl.frontier.store is not None
    assert count_pending(crawl.frontier.store) == len(crawl.pending)
    crawl.wall.now += 10_000
    while crawl.pending:
        crawl.lease()
        crawl.settle()
    crawl.check()
    assert crawl.frontier.lease() is None
    crawl.frontier.checkpoint()
    assert count_pending(crawl.frontier.store) == 0
    crawl.seen.close()
