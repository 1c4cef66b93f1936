"""A job in the terminal: running, stopped, finished, old, in small terminals."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from support.jobs import Verb
from support.monitored_jobs import FAILED, LONG, NOW, changed, monitored_job, point
from support.waiting import DEADLINE

from bloomdupe.crawl.progress.pace import clock, rates
from bloomdupe.frontier.slot_state import Backoff
from bloomdupe.jobs.job_on_disk import JobOnDisk
from bloomdupe.jobs.listed import FailedRequests
from bloomdupe.jobs.view import FINISHED, KILLED, RUNNING, SILENT, Life, State, View
from bloomdupe.monitoring.figures import BAD, GOOD, WARN, remedy_of
from bloomdupe.monitoring.report import runs, verdict
from bloomdupe.monitoring.top import BARS, SORTS, screen, spark


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return monitored_job(tmp_path)


def lines(job: Path, width: int, sort: int = 0, height: int = 24) -> list[str]:
    return shown(JobOnDisk(str(job)).read(), width, sort, height)


def shown(view: View, width: int, sort: int = 0, height: int = 24) -> list[str]:
    return screen(view, (width, height), sort)


def test_nothing_is_wider_or_higher_than_the_terminal(job: Path) -> None:
    for width, sort in product((20, 40, 80, 200), range(len(SORTS))):
        shown = lines(job, width, sort, height=16)
        assert max(len(line.rstrip()) for line in shown) <= width
        assert len(shown) <= 16
    assert re.search(r"pending +7", "\n".join(shown))


def at_work(job: Path, seconds: float, name: str = RUNNING, **backing_off: str) -> View:
    """Return a job as if it ran, so many seconds after its last checkpoint."""
    view = JobOnDisk(str(job)).read()
    now = NOW + seconds
    backoffs = {
        f"{slot}.example": Backoff(now + 60, reason)
        for slot, reason in backing_off.items()
    }
    state = State(name, now, name, NOW)
    life = Life(written_at=NOW)
    return changed(view, life=life, state=state, backing_off=backoffs)


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


def test_a_killed_run_counts_up_to_its_last_checkpoint(job: Path) -> None:
    view = at_work(job, 3_600, KILLED)
    totals = replace(view.totals, pages=1_234, seconds=64.0)
    killed = changed(view, totals=totals)
    assert (killed.present[-1].pages, killed.seconds) == (1_234, 64)
    assert "1,234" in "".join(runs(killed))


def test_colours_warn_of_a_crawl_that_stands_still_or_was_in_vain(job: Path) -> None:
    assert remedy_of(at_work(job, 0)).kind == GOOD
    assert remedy_of(at_work(job, 120)).kind == WARN
    done = at_work(job, 0, FINISHED)
    assert remedy_of(done).kind == GOOD
    in_vain = changed(done, totals=replace(done.totals, pages=4))
    assert remedy_of(in_vain).kind == BAD
    assert "look at the start URLs" in remedy_of(in_vain).text
    no_pages = [one._replace(reason="timeout", status=None) for one in FAILED]
    some_pages = changed(in_vain, failed=FailedRequests(no_pages))
    assert remedy_of(some_pages).kind == GOOD


def test_the_time_to_go_is_at_least_that_of_a_backoff(job: Path) -> None:
    view = at_work(job, 10)
    many = len(view.points)
    fewer = [one._replace(pending=many - n) for n, one in enumerate(view.points)]
    assert 0 < (changed(view, points=fewer).to_go or 0) < 60
    backoffs = at_work(job, 10, a="no answer").backing_off
    assert changed(view, points=fewer, backing_off=backoffs).to_go == pytest.approx(60)


def test_a_wide_terminal_has_the_reasons_of_backoffs(job: Path) -> None:
    view = at_work(job, 10, a="no answer")
    until = clock(NOW + 70, NOW)
    wide = "\n".join(shown(view, 80))
    assert re.search(
        rf"^ a.example .* backs off until {until} \(no answer\)", wide, re.M
    )
    for height in range(12, 24):
        assert len(shown(view, 40, height=height)) <= height


def test_a_crawl_that_backs_off_altogether_has_no_time_to_go(job: Path) -> None:
    view = at_work(job, 10, a="no answer", b="Retry-After")
    slots = dict.fromkeys(("a.example", "b.example"), 5)
    view = changed(view, slots=slots)
    text = "\n".join(shown(view, 80))
    assert "all backing off" in text
    assert "to go" not in text
    assert "pending on 2 hosts, all backing off, 4 failed" in verdict(view)


def test_an_old_view_says_that_redis_does_not_answer(job: Path) -> None:
    view = at_work(job, 10)
    head, *rest = screen(view, (80, 24))
    old, *same = screen(view, (80, 24), answers=False)
    assert (old, same) == (head.replace(RUNNING, "Redis does not answer"), rest)


def test_slots_are_sorted_as_asked(job: Path) -> None:
    def names(sort: int) -> list[str]:
        return re.findall(
            r"^ (\w)\S*\.?e?", "\n".join(lines(job, 80, sort)), re.MULTILINE
        )

    first = {
        name: next(n for n in names(sort) if n in "abc")
        for sort, (name, _) in enumerate(SORTS)
    }
    assert first == {"pending": "a", "failed": "b", "backing off": "a", "name": "a"}


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


COLOUR = re.compile(r"\x1b\[[\d;]*m")


class Terminal:
    """``bloomdupe top`` in a terminal of its own."""

    def __init__(self, job: Path, term: str = "xterm-256color") -> None:
        self._end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bloomdupe", "top", job],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": term},
        )
        self._before = termios.tcgetattr(other)
        self._other = other
        # A character of several bytes may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.shown = ""

    def wait_for(self, text: str) -> None:
        self._read_until(lambda: text in COLOUR.sub("", self.shown))

    def _read_until(self, condition: Callable[[], object]) -> None:
        """Read its output until something holds; unread, it would make it wait."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, self.shown
            if select.select([self._end], [], [], 0.1)[0]:
                self.shown += self._decoder.decode(os.read(self._end, 1 << 16))

    def press(self, key: str) -> None:
        os.write(self._end, key.encode())

    def end(self) -> int:
        """Wait for its end."""
        self._read_until(lambda: self.process.poll() is not None)
        assert termios.tcgetattr(self._other) == self._before
        os.close(self._end)
        os.close(self._other)
        return self.process.returncode


def test_keys_sort_and_quit_and_the_terminal_is_as_before(job: Path) -> None:
    terminal = Terminal(job)
    terminal.wait_for("s sort by failed")
    assert "\x1b[1;" in terminal.shown  # bold, in colour
    terminal.press("s")
    terminal.wait_for("s sort by backing off")
    terminal.press("q")
    assert terminal.end() == 0


def test_a_terminal_that_cannot_be_refreshed_shows_it_once(job: Path) -> None:
    terminal = Terminal(job, "dumb")
    terminal.wait_for("pending")
    assert terminal.end() == 0
    assert "\x1b" not in terminal.shown


def test_bars_are_as_high_as_the_rate() -> None:
    points = [point(0), point(30, pages=10), point(60, pages=40)]
    assert rates(points, points[0].time, 4) == pytest.approx([20, 20, 60, 60])
    assert spark([20, 20, 60, 60], BARS) == "▃▃██"
    assert spark([0.0], BARS) == "▁"
    # Between two runs nothing is done; pages that were lost in a crash do not count.
    points = [point(0), point(30, run=2, pages=99), point(60, run=2, pages=99)]
    assert rates(points, points[0].time, 2) == [0, 0]
