"""A job in the terminal: running, stopped, finished, old, in small terminals."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from support.monitored_jobs import LONG, monitored_job, point
from support.terminal import Terminal

from bloomdupe import BloomFilter
from bloomdupe.crawl.progress.pace import rates
from bloomdupe.errors import ExtraMissingError
from bloomdupe.jobs.on_disk.state_on_disk import StoreReader
from bloomdupe.monitoring import extra
from bloomdupe.monitoring.extra import need
from bloomdupe.monitoring.top import BARS, screen, spark

if TYPE_CHECKING:
    from pathlib import Path

    from support.jobs import Verb


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return monitored_job(tmp_path)


SORTS = ("pending", "failed", "resting", "name")


def lines(job: Path, width: int, sort: str = "pending", height: int = 24) -> list[str]:
    console = Console(width=width, height=height, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    view = StoreReader(job / "bloomdupe").read()
    with console.capture() as shown:
        console.print(screen(view, console, sort))
    console.file.close()
    return shown.get().splitlines()


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_nothing_is_wider_or_higher_than_the_terminal(job: Path, width: int) -> None:
    for sort in SORTS:
        shown = lines(job, width, sort, height=16)
        assert max(len(line.rstrip()) for line in shown) <= width
        assert len(shown) <= 16
    assert re.search(r"pending +7", "\n".join(shown))


def test_slots_are_sorted_as_asked(job: Path) -> None:
    def names(sort: str) -> list[str]:
        return re.findall(
            r"^ (\w)\S*\.?e?", "\n".join(lines(job, 80, sort)), re.MULTILINE
        )

    first = {sort: [n for n in names(sort) if n in "abc"][0] for sort in SORTS}  # noqa: RUF015
    assert first == {"pending": "a", "failed": "b", "resting": "a", "name": "a"}


def test_a_line_for_those_who_have_no_terminal(verb: Verb, job: Path) -> None:
    answer = verb("top", job)
    assert answer.code == 0
    assert "\x1b" not in answer.out
    assert "site  stopped: shutdown" in answer.out
    assert re.search(r"failed +4  4 HTTP 404", answer.out)
    assert "q quit" not in answer.out
    found = json.loads(verb("top", job, "--json").out)
    assert found["job"]["pending"] == 7
    assert found["failed"] == {"HTTP 404": 4}
    assert found["slots"] == {"a.example": 5, "b.example": 1, LONG: 1}
    assert found["pages_per_minute"] == pytest.approx(1200)
    assert found["seconds_to_go"] is None  # it does not run


def test_a_job_of_an_earlier_version_has_no_history(verb: Verb, tmp_path: Path) -> None:
    answer = verb("top", monitored_job(tmp_path, history=False))
    assert answer.code == 0
    assert "made by an earlier version" in answer.out
    assert "7" in answer.out


def test_what_is_no_job_is_refused(verb: Verb, tmp_path: Path) -> None:
    answer = verb("top", tmp_path / "nothing")
    assert answer.code == 1
    assert "there is no bloomdupe store" in answer.err
    BloomFilter.open(tmp_path / "filter", 1_000).close()
    answer = verb("top", tmp_path / "filter")
    assert answer.code == 1
    assert "no crawl has used this store" in answer.err
    answer = verb("top", tmp_path / "filter", "--interval", "0")
    assert answer.code == 2
    assert "--interval 0: expected seconds from 0.1 to 3600" in answer.err


def test_a_missing_package_is_named_with_the_command_that_helps(
    verb: Verb, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ExtraMissingError, match=r"pip install 'bloomdupe\[x\]'"):
        need("no_such_package", "x", "this")
    monkeypatch.setattr(extra, "find_spec", lambda _: None)
    answer = verb("top", job)
    assert answer.code == 1
    assert "needs the package rich" in answer.err
    assert "pip install 'bloomdupe[top]'" in answer.err
    assert verb("top", job, "--json").code == 0


def test_keys_sort_and_quit_and_the_terminal_is_as_before(job: Path) -> None:
    terminal = Terminal(str(job), 80)
    terminal.wait_for("s sort by failed")
    assert "\x1b[1;" in terminal.shown  # bold, in colour
    terminal.press("s")
    terminal.wait_for("s sort by resting")
    terminal.press("q")
    assert terminal.end() == 0


def test_no_colour_means_no_colour(job: Path) -> None:
    terminal = Terminal(str(job), 40, NO_COLOR="1")
    terminal.wait_for("q quit")
    terminal.press("q")
    assert terminal.end() == 0
    assert not re.search(r"\x1b\[[\d;]*3[1-7][;m]", terminal.shown)


def test_bars_are_as_high_as_the_rate() -> None:
    points = [point(0), point(30, pages=10), point(60, pages=40)]
    assert rates(points, points[0].time, 4) == pytest.approx([20, 20, 60, 60])
    assert spark([20, 20, 60, 60], BARS) == "▃▃██"
    assert spark([0.0], BARS) == "▁"
    # Between two runs nothing is done; what was lost in a crash is nothing either.
    points = [point(0), point(30, run=2, pages=99), point(60, run=2, pages=99)]
    assert rates(points, points[0].time, 2) == [0, 0]
