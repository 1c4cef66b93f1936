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


@pytest.fixture
def verb(verb: Verb, monkeypatch: pytest.MonkeyPatch) -> Verb:
    """Every step of a long task is told, as if in a terminal."""
    monkeypatch.setattr(output, "_in_terminal", lambda: True)
    monkeypatch.setattr(progress, "PATIENCE", -1)
    monkeypatch.setattr(contents, "MAX_SWEEP", 1)
    return verb


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
