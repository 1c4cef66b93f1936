from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from support.jobs import make_job

from bloomdupe.cli import progress_bar
from bloomdupe.store import trust

if TYPE_CHECKING:
    from pathlib import Path

    from support.jobs import Verb

URLS = [f"https://a.example/{number}" for number in range(30)]
LONG = {
    "add": ["add", "JOB", "https://b.example/"],
    "backup": ["backup", "JOB", "NEW"],
    "block": ["block", "JOB", "--pattern", "/1"],
    "check": ["check", "JOB", URLS[3]],
    "compact": ["compact", "JOB"],
    "drop": ["drop", "JOB", "--pattern", "/1"],
    "export": ["export", "JOB", "NEW"],
    "list": ["list", "JOB"],
    "repair": ["repair", "JOB", "NEW"],
    "requeue": ["requeue", "JOB", URLS[3]],
    "restore": ["restore", "JOB", "NEW"],
    "verify": ["verify", "JOB"],
}


@pytest.mark.parametrize("name", LONG)
def test_a_verb_that_may_take_long_shows_its_progress(
    name: str, verb: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[float] = []

    class Bar(progress_bar._Bar):
        def update(self, size: float = 1) -> Any:
            passed.append(size)
            return super().update(size)

    job = make_job(tmp_path / "job", URLS)
    monkeypatch.setattr(progress_bar, "_Bar", Bar)
    places = {"JOB": str(job), "NEW": str(tmp_path / "new")}
    answer = verb(*(places.get(word, word) for word in LONG[name]))
    assert answer.code == 0, answer
    assert sum(passed) > 0


def test_a_long_check_of_a_store_is_told(
    verb: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(tmp_path / "job", URLS)
    assert "Checking" not in verb("info", str(job)).err
    (job / "bloomdupe" / "clean.json").unlink()
    monkeypatch.setattr(trust, "PATIENCE", 0)
    assert re.search("Checking .*data.mdb, .*: 0 of 0 MB", verb("info", str(job)).err)
