from __future__ import annotations

import io
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.jobs import Verb, make_job
from tqdm import tqdm  # type: ignore[import-untyped]

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
    ("bar", "drawn"), [(progress_bar._Bar, 1), (tqdm, 21)], ids=["ours", "tqdm"]
)
def test_lines_above_a_bar_do_not_draw_it_each_time(bar: Any, drawn: int) -> None:
    terminal = io.StringIO()
    with bar(total=20, file=terminal, mininterval=1_000, leave=False) as shown:
        for number in range(20):
            tqdm.write(f"line {number}", file=terminal)
            shown.update()
    assert terminal.getvalue().count("%|") == drawn
    assert re.findall(r"line (\d+)\n", terminal.getvalue()) == [*map(str, range(20))]


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


def test_short_tasks_after_each_other_are_not_silent_for_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(progress, "PATIENCE", 1.0)
    monkeypatch.setattr(progress, "monotonic", lambda: now)
    for name in ("_seen", "_due"):  # they hold for the process
        monkeypatch.setattr(progress.Progress, name, 0.0)
    caplog.set_level("INFO", "bloomdupe.store.progress")
    told = []
    for task in range(8):  # each takes less than the patience
        steps = progress.Progress(f"task {task}", 3, "steps")
        for _ in range(3):
            now += progress.PATIENCE / 5
            steps.passed(1)
            told.append(bool(caplog.records))
            caplog.clear()
    silent = "".join(" x"[one] for one in told).split("x")
    assert max(map(len, silent)) < 6
    now += 1_000
    progress.Progress("a task that begins later", 3, "steps").passed(1)
    assert not caplog.records
