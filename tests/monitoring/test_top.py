"""A job in the terminal: running, stopped, finished, old, in small terminals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.jobs import Verb
from support.monitored_jobs import LONG, NOW, monitored_job
from support.terminal import Terminal

from bloomdupe.frontier.slot_state import Rest
from bloomdupe.jobs.job_on_disk import JobOnDisk
from bloomdupe.jobs.reader import JobReader
from bloomdupe.jobs.view import RUNNING, SILENT, Life, State, View
from bloomdupe.monitoring.top import screen


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return monitored_job(tmp_path)


def shown(view: View, width: int, height: int = 24) -> list[str]:
    return screen(view, (width, height))


def at_work(job: Path, seconds: float, name: str = RUNNING, **resting: str) -> View:
    """Return a job as if it ran, so many seconds after its last checkpoint."""
    view = JobReader(JobOnDisk(str(job))).read()
    now = NOW + seconds
    rests = {
        f"{slot}.example": Rest(now + 60, reason) for slot, reason in resting.items()
    }
    state = State(name, now, name, "process 1", NOW)
    life = Life(written_at=NOW)
    return replace(view, life=life, state=state, resting=rests)


def test_a_rate_falls_while_nothing_comes(job: Path) -> None:
    assert at_work(job, 0).rate == pytest.approx(1_200)
    assert at_work(job, 30).rate == pytest.approx(600, rel=0.15)
    stuck = at_work(job, 120)
    assert stuck.rate == 0
    assert stuck.seconds == pytest.approx(180)
    assert "0 a minute" in "".join(shown(stuck, 80))
    silent = at_work(job, 120, SILENT)  # the rate before it hung
    assert silent.rate == pytest.approx(1_200)
    assert silent.seconds == pytest.approx(60)


def test_the_time_to_go_is_at_least_that_of_a_rest(job: Path) -> None:
    view = at_work(job, 10)
    fewer = [one._replace(pending=70 - n) for n, one in enumerate(view.points)]
    assert 0 < (replace(view, points=fewer).to_go or 0) < 60
    rests = at_work(job, 10, a="no answer").resting
    assert replace(view, points=fewer, resting=rests).to_go == pytest.approx(60)


def test_a_crawl_that_rests_altogether_has_no_time_to_go(job: Path) -> None:
    view = at_work(job, 10, a="no answer", b="Retry-After")
    slots = dict.fromkeys(("a.example", "b.example"), 5)
    view = replace(view, slots=slots)
    text = "\n".join(shown(view, 80))
    assert "all resting" in text
    assert "to go" not in text


def test_slots_have_their_pending_and_failed_requests(job: Path) -> None:
    text = "\n".join(shown(JobReader(JobOnDisk(str(job))).read(), 80))
    assert re.search(r"^ +5 +0  a.example$", text, re.MULTILINE)
    assert re.search(r"^ +1 +3  b.example$", text, re.MULTILINE)


def test_without_a_terminal_it_prints_a_line(verb: Verb, job: Path) -> None:
    answer = verb("top", job)
    assert answer.code == 0
    assert "\x1b" not in answer.out
    assert "site  stopped: shutdown" in answer.out
    assert re.search(r"failed +4  4 HTTP 404", answer.out)
    assert "q quit" not in answer.out
    found = json.loads(verb("top", job, "--json").out)
    assert found["pending"] == 7
    assert found["failed"] == {"HTTP 404": 4}
    assert found["largest"] == {"a.example": 5, "b.example": 1, LONG: 1}
    assert found["pages_per_minute"] == pytest.approx(1200)
    assert found["seconds_to_go"] is None  # it does not run


def test_a_key_quits_and_the_terminal_is_as_before(job: Path) -> None:
    terminal = Terminal(str(job), 80)
    terminal.wait_for("q quit")
    assert "\x1b[1;" in terminal.shown  # bold, in colour
    terminal.press("q")
    assert terminal.end() == 0
