from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.jobs import Verb, make_job

from bloomdupe.cli import progress_bar
from bloomdupe.filter import layer
from bloomdupe.store import progress

URLS = [f"https://a.example/{number}" for number in range(30)]
LONG = {
    "add": ["add", "JOB", "--from", "LINES"],
    "backup": ["backup", "JOB", "NEW"],
    "check": ["check", "JOB", URLS[3]],
    "drop": ["drop", "JOB", "--pattern", "/1"],
    "list": ["list", "JOB"],
    "requeue": ["requeue", "JOB", URLS[3]],
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
    lines = tmp_path / "lines"
    lines.write_text("https://b.example/\n")
    places = {"JOB": str(job), "NEW": str(tmp_path / "new"), "LINES": str(lines)}
    answer = verb(*(places.get(word, word) for word in LONG[name]))
    assert answer.code == 0, answer
    assert sum(passed) > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["info", "JOB"], "Checking {}/data.mdb, .*: 0 of 0 MB"),
        (["check", "JOB", URLS[3]], "Reading the journal of {}/data.mdb: 1 of 2 rec"),
        (["list", "JOB"], "Reading the slots of {}/data.mdb: 1 of 2 records"),
    ],
)
def test_a_long_task_of_a_store_is_announced(
    words: list[str],
    said: str,
    verb: Verb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = make_job(tmp_path / "job", URLS)
    make_job(job, ["https://b.example/"])  # another slot, and journal entry
    copy = tmp_path / "copy"
    shutil.copytree(job, copy)
    (copy / "bloomdupe" / "clean.json").unlink()  # so that it is checked
    named = [{"JOB": str(copy), "COPY": str(job)}.get(word, word) for word in words]
    line = said.format(re.escape(str(copy / "bloomdupe")))
    monkeypatch.setattr(progress, "PATIENCE", 0)
    monkeypatch.setattr(layer, "MAX_SWEEP", 1)
    answer = verb(*named, "--json")
    assert re.search(line, answer.err)
    assert answer.out.startswith("{")
