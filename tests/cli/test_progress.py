from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support.jobs import Verb, make_job, run

from bloomdupe.cli import output
from bloomdupe.filter import contents
from bloomdupe.store import progress

URLS = [f"https://a.example/{number}" for number in range(30)]
LONG = {
    "add": (["add", "JOB", "--from", "LINES"], "Reading {lines}"),
    "backup": (["backup", "JOB", "NEW"], "Writing "),
    "check": (["check", "JOB", URLS[3]], "Reading {job}"),
    "drop": (["drop", "JOB", "--pattern", "/1"], "Reading {job}"),
    "list": (["list", "JOB"], "Reading {job}"),
    "requeue": (["requeue", "JOB", URLS[3]], "Reading {job}"),
    "verify": (["verify", "JOB"], "Checking {job}/data.mdb"),
}
"""Verbs, and the task that they tell of."""


@pytest.fixture
def verb(verb: Verb, monkeypatch: pytest.MonkeyPatch) -> Verb:
    """Every step of a long task is told, as if in a terminal."""
    monkeypatch.setattr(output, "_in_terminal", lambda: True)
    monkeypatch.setattr(progress, "PATIENCE", -1)
    monkeypatch.setattr(contents, "MAX_SWEEP", 1)
    return verb


@pytest.mark.parametrize("name", LONG)
def test_a_verb_that_may_take_long_shows_its_progress(
    name: str, verb: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: dict[str, int] = {}

    def count(self: progress.Progress, number: int) -> None:
        passed[self._task] = passed.get(self._task, 0) + number

    job = make_job(tmp_path / "job", URLS)
    lines = tmp_path / "lines"
    lines.write_text("https://b.example/\n")
    monkeypatch.setattr(progress.Progress, "passed", count)
    places = {"JOB": str(job), "NEW": str(tmp_path / "new"), "LINES": str(lines)}
    words, task = LONG[name]
    answer = verb(*(places.get(word, word) for word in words))
    assert answer.code == 0, answer
    named = task.format(job=job / "bloomdupe", lines=lines)
    assert any(name.startswith(named) and count for name, count in passed.items())


def test_progress_is_told_in_a_terminal_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1)
    job = make_job(tmp_path / "job", URLS)
    assert run(capsys, "list", job).err == ""


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
) -> None:
    job = make_job(tmp_path / "job", URLS)
    make_job(job, ["https://b.example/"])  # another slot, and journal entry
    copy = tmp_path / "copy"
    shutil.copytree(job, copy)
    (copy / "bloomdupe" / "clean.json").unlink()  # so that it is checked
    named = [{"JOB": str(copy), "COPY": str(job)}.get(word, word) for word in words]
    line = said.format(re.escape(str(copy / "bloomdupe")))
    answer = verb(*named, "--json")
    assert re.search(line, answer.err)
    assert answer.out.startswith("{")
