"""The judge itself: what is damaged on purpose must be seen, and in which place.

That it sees protections which are taken out is shown by the controls of F3 and F25.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crawls import IdiomCrawl
from judging import again, judge, run_to_end
from recorder import FILE
from stock import Model, expected
from support.stops import Stop
from table import load

PLAIN = load()["plain"]
KILL = Stop(point="after pwrite items.jsonl")
"""The first time: how often a crawl writes depends on its pace."""

ONE_BY_ONE: Any = {"CONCURRENT_REQUESTS": 1, "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.001}
"""Each page is in a checkpoint before the answer to the next one."""


@pytest.fixture(scope="module")
def model() -> Model:
    return expected(PLAIN)


@pytest.fixture(scope="module")
def finished(model: Model) -> Iterator[IdiomCrawl]:
    """Yield a crawl that was killed, and has come to its end: nothing is wrong."""
    with IdiomCrawl(PLAIN) as crawl:
        assert crawl.run_command(KILL).stopped
        assert run_to_end(crawl) == []
        assert judge(model, crawl)
        yield crawl


@pytest.fixture
def crawl(finished: IdiomCrawl, tmp_path: Path) -> IdiomCrawl:
    """Return a copy of it, to be damaged."""
    crawl = copy(finished)
    crawl.site = copy(finished.site)
    crawl.site.log = [*finished.site.log]
    crawl.folder = shutil.copytree(finished.folder, tmp_path / "crawl")
    return crawl


def item_twice(crawl: IdiomCrawl) -> None:
    with (crawl.folder / "items.jsonl").open("r+", encoding="utf-8") as feed:
        feed.write(feed.readlines()[-1])


def item_lost(crawl: IdiomCrawl, name: str = "items.csv") -> None:
    feed = crawl.folder / name
    *lines, last = feed.read_text().splitlines()
    # A pipeline may have seen it twice, if its page was not done before the stop.
    feed.write_text("\n".join(line for line in lines if line != last))


def item_torn(crawl: IdiomCrawl) -> None:
    feed = crawl.folder / "items.jsonl"
    feed.write_bytes(feed.read_bytes()[:-3])


def page_lost(crawl: IdiomCrawl) -> None:
    log = crawl.site.log
    log[:] = [visit for visit in log if visit.what != "/7"]


def page_invented(crawl: IdiomCrawl) -> None:
    log = crawl.site.log
    log.append(replace(log[-1], path="/nowhere"))


def page_repeated(crawl: IdiomCrawl) -> None:
    log = crawl.site.log
    log += [visit for visit in log if visit.what == "/0"] * 30


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (item_twice, "JSON lines: 1 of 21 too many"),
        (item_lost, "CSV: 1 of 21 missing"),
        (item_torn, "JSON lines: 1 of 21 missing"),
        (partial(item_lost, name=FILE), "pipeline: 1 of 21 missing"),
        (page_lost, "never asked for: ['/7']"),
        (page_invented, "asked for, but not before: ['/nowhere']"),
        (page_repeated, "requests again"),
    ],
)
def test_the_judge_sees_damaged_results(
    model: Model, crawl: IdiomCrawl, damage: Callable[[IdiomCrawl], None], words: str
) -> None:
    damage(crawl)
    assert any(words in complaint for complaint in judge(model, crawl).complaints)


def test_a_job_that_was_deleted_between_the_runs_is_seen(model: Model) -> None:
    with IdiomCrawl(PLAIN, **ONE_BY_ONE) as crawl:
        assert crawl.run_command(Stop(request=15)).stopped
        assert crawl.outputs()["JSON lines"]
        shutil.rmtree(crawl.folder / "job")
        assert run_to_end(crawl) == []
        complaints = judge(model, crawl).complaints
    assert any("JSON lines" in words and "too many" in words for words in complaints)
    assert any("requests again" in words for words in complaints)


def test_a_finished_job_that_changes_is_seen() -> None:
    with IdiomCrawl(PLAIN) as crawl:
        assert run_to_end(crawl) == []
        shutil.rmtree(crawl.folder / "job")
        # It asks for pages, puts out items in two feeds, and changes files.
        assert len(again(crawl, Stop()).complaints) == 4


def test_the_judge_sees_a_request_that_counts_too_early() -> None:
    gathers = load()["memory_gathers"]
    model = expected(gathers)
    with IdiomCrawl(gathers, without="reading_values", **ONE_BY_ONE) as crawl:
        assert crawl.run_command(Stop(point="after commit", nth=8)).stopped
        assert run_to_end(crawl) == []
        assert any(
            "missing" in complaint for complaint in judge(model, crawl).complaints
        )
