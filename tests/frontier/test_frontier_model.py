from __future__ import annotations

import pytest
from support.frontier_model import LIMITS, OPTIONS, FrontierMachine, MemoryMachine


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in LIMITS:
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("machine", [FrontierMachine, MemoryMachine])
def test_the_frontier_behaves_like_the_model(machine: type[FrontierMachine]) -> None:
    case = machine.TestCase
    case.settings = OPTIONS
    case("runTest").debug()
