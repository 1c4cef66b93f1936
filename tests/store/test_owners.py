"""Workers that own partitions: nothing is lost, and nothing comes twice.

The controls are those of F21.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.owners_model import trial
from support.redis_server import RedisServer
from support.repetition import slow_tests_run

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIALS = 200 if slow_tests_run() else 20
PORTIONS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield a server that says it is durable; nothing is ever restarted here."""
    folder = tmp_path_factory.mktemp("owners")
    with RedisServer(folder, "--save", "100000 1") as started:
        yield started


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_nothing_is_lost_and_nothing_comes_twice(
    server: RedisServer, portion: int
) -> None:
    faults: Counter[str] = Counter()
    for seed in range(portion, TRIALS, PORTIONS):
        outcome = trial(server, seed)
        assert outcome.right, (seed, outcome)
        faults += outcome.faults
    assert all(faults[kind] for kind in ("killed", "stopped", "back", "refused"))
    assert all(faults[kind] for kind in ("repeated", "taken", "given"))
