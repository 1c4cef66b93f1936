"""Workers that own partitions: nothing is lost, and nothing comes twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.owners_model import trial
from support.redis_server import LOGGED, RedisServer
from support.repetition import slow_tests_run

from bloomdupe.store.redis import owner as module
from bloomdupe.store.redis.client import LuaScript

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIALS = 1_000 if slow_tests_run() else 20
CUT_TRIALS = 20 if slow_tests_run() else 1
PORTIONS = 4
CONTROL_TRIALS = 40


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


def test_nothing_is_lost_when_the_log_of_redis_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    faults: Counter[str] = Counter()
    with RedisServer(tmp_path_factory.mktemp("cut"), *LOGGED) as server:
        for seed in range(CUT_TRIALS):
            outcome = trial(server, seed, cut=True)
            assert outcome.right, (seed, outcome)
            faults += outcome.faults
    assert faults["back"]


@pytest.mark.parametrize(
    "checks",
    [
        ["~= token then return 'not the owner'"],
        ["if last == step then return 'again' end", "'not the next step'"],
        ["'another inbox'"],
    ],
    ids=["no fence", "no step", "no digest of the inbox"],
)
def test_without_a_check_of_the_script_it_fails(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, checks: list[str]
) -> None:
    monkeypatch.setattr(module, "COMMIT", _without(checks))
    wrong = 0
    for seed in range(CONTROL_TRIALS):
        try:
            wrong += not trial(server, seed).right
        except Exception:  # noqa: BLE001 - it meets what cannot be
            wrong += 1
        if wrong:
            return
    pytest.fail("the judge has found nothing")


def _without(checks: list[str]) -> object:
    """Return the script of a commit without the lines that hold these checks."""
    script = LuaScript("commit")
    lines = script.text.decode().splitlines()
    kept = [line for line in lines if not any(check in line for check in checks)]
    assert len(lines) - len(kept) == len(checks)
    script.text = "\n".join(kept).encode()
    return script
