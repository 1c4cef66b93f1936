"""F1: ``kill -9`` of a process that fills a filter, at random times.

The judge is the parent: it kills, and it keeps the list of keys that the child reported
as durable. No acknowledged key may be missing, and the store must open.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from bloomdupe import BloomFilter

pytestmark = pytest.mark.slow

CHILD = Path(__file__).parent / "filter_child.py"
KILLS = 20
MOST_KEYS = 3_000
"""Until the kill."""


def run_until_killed(
    path: Path, first: int, batch: int, keys: int, *options: str
) -> int:
    """Start the child at a number, kill it after so many keys, or a few more.

    Return the number it acknowledged.
    """
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(path), str(first), str(batch), *options],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it has begun
        acknowledged = first
        for line in child.stdout:
            if line.endswith("\n"):
                acknowledged = int(line)
            if acknowledged >= first + keys:
                child.kill()
    return acknowledged


def lost_after_kills(directory: Path, kills: int, seed: int, *options: str) -> int:
    """Kill again and again; return how many acknowledged keys were lost."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = directory / "seen"
    BloomFilter.open(path, 20_000, 1e-6).close()
    number = 0
    for _ in range(kills):
        batch = rng.choice([1, 10, 100, 1000])
        keys = rng.randrange(MOST_KEYS)
        number = run_until_killed(path, number, batch, keys, *options)
    with BloomFilter.open(path) as seen:
        lost = sum(str(key) not in seen for key in range(number))
        assert len(seen) >= number - lost - 20
    assert number > 1000, "the child did too little for the test to mean anything"
    return lost


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    assert lost_after_kills(tmp_path, KILLS, 1) == 0


def test_acknowledging_before_the_checkpoint_loses_keys(tmp_path: Path) -> None:
    """The control: the same test sees the loss when there is one."""
    assert lost_after_kills(tmp_path, 3, 3, "--too-early") > 0
