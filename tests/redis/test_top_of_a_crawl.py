"""``top`` of a crawl on Redis: figures, rates, small terminals, a Redis in trouble."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from rich.console import Console
from scrapy import Request
from support.jobs import run
from support.redis_server import LOGGED, RedisServer
from support.standing_crawl import PARTITIONS, StandingCrawl, offer_of
from support.terminal import Terminal

from bloomdupe.errors import StoreMismatchError, StoreUnreachableError
from bloomdupe.jobs.on_redis.state_on_redis import CrawlReader
from bloomdupe.jobs.view import View
from bloomdupe.monitoring.top import SORTS, screen
from bloomdupe.redis.shared_frontier import SharedFrontier


@pytest.fixture
def reader(url: str, crawl: StandingCrawl) -> Iterator[CrawlReader]:
    assert crawl.url == url
    with closing(CrawlReader(url)) as reader:
        yield reader


@pytest.fixture
def crawl(url: str) -> StandingCrawl:
    crawl = StandingCrawl(url)
    crawl.fill(20, 30)
    for worker in crawl.workers:
        crawl.lease(worker, 100)
    return crawl


def elapsed(view: View) -> float:
    return view.points[-1].time - view.points[0].time


def test_rates_count_the_requests_done_between_two_looks(
    crawl: StandingCrawl, reader: CrawlReader
) -> None:
    first = reader.read()
    assert first.rate is None
    crawl.settle("one", 30)
    crawl.settle("two", 10)
    view = reader.read()
    assert view.rate is not None
    assert view.rate / 60 * elapsed(view) == pytest.approx(40)
    # 560 are owed, at 40 in this time.
    assert view.to_go == pytest.approx(560 / 40 * elapsed(view))
    crawl.fill(20, 60)
    assert reader.read().to_go is None  # more come than go


def shown(view: View, width: int, height: int, sort: str) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO())
    with console.capture() as captured:
        console.print(screen(view, console, sort))
    return captured.get().splitlines()


def test_nothing_is_wider_or_higher_than_the_terminal(
    crawl: StandingCrawl, reader: CrawlReader
) -> None:
    crawl.offer(offer_of(Request("https://a.example/"), "x" * 300))
    for _ in range(3):
        view = reader.read()
    for width, height, sort in product((20, 40, 80, 200), (14, 16, 24, 50), SORTS):
        lines = shown(view, width, height, sort)
        assert max(len(line.rstrip()) for line in lines) <= width
        assert len(lines) <= height
        assert re.search(r"pending +401", "\n".join(lines))


def test_names_from_the_web_move_no_cursor(url: str) -> None:
    crawl = StandingCrawl(url, workers=["a\x1b[2J"])
    crawl.offer(offer_of(Request("https://b.example/"), "b\x1b[2J\n"))
    with closing(CrawlReader(url)) as reader:
        lines = shown(reader.read(), 80, 24, "name")
    assert not any("\x1b" in line for line in lines)


def test_without_a_terminal_it_prints_a_line(
    crawl: StandingCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = run(capsys, "top", crawl.url, "--interval", "0.1")
    assert answer.code == 0
    assert "\x1b" not in answer.out
    assert "site  running (2 workers)  5 partitions on Redis" in answer.out
    assert re.search(r"pages +0  0\.0 a second", answer.out)
    assert re.search(r"in progress +200", answer.out)
    assert "q quit" not in answer.out
    found = json.loads(run(capsys, "top", crawl.url, "--json", "--interval=0.1").out)
    assert (found["job"]["pending"], found["job"]["leased"]) == (400, 200)
    assert found["pages_per_minute"] == 0
    assert found["slots"] == dict(crawl.waiting)


def test_a_redis_that_is_away_for_a_moment(tmp_path: Path) -> None:
    with RedisServer(tmp_path, *LOGGED) as server:
        crawl = StandingCrawl(server.url("crawl"))
        crawl.fill(3, 10)
        with closing(CrawlReader(crawl.url)) as reader:
            reader.read()
            server.kill()
            view = reader.read()
            assert view.trouble is not None
            assert "no Redis answers there" in view.trouble
            assert view.job.pending == 30
            assert "Redis does not answer" in shown(view, 80, 24, "name")[0]
            with pytest.raises(StoreUnreachableError):
                CrawlReader(crawl.url).read()
            server.start()
            assert reader.read().trouble is None
            with server.client() as client:
                client.flushall()
            SharedFrontier.open(crawl.url, 10, partitions=1).close()
            with pytest.raises(StoreMismatchError, match="another crawl has been made"):
                reader.read()


def test_it_goes_on_in_a_terminal_until_q_is_pressed(crawl: StandingCrawl) -> None:
    terminal = Terminal(crawl.url, 80, "--interval", "0.1")
    terminal.wait_for("s sort by failed")
    terminal.press("s")
    terminal.wait_for("s sort by resting")
    crawl.settle("one", 100)
    terminal.wait_for("pages        100")
    crawl.close()
    terminal.wait_for(f"{PARTITIONS} partitions without a worker")
    terminal.press("q")
    assert terminal.end() == 0
