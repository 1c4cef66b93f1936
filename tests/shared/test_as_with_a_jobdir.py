"""A spider has on Redis what it has with a JOBDIR: real workers, a real site."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from crew import DEADLINE, Crew
from support.page_server import page_server
from support.redis_server import RedisServer

from bloomdupe.cli.main import main
from bloomdupe.redis.shared_frontier import SharedFrontier
from bloomdupe.settings import DEFAULTS
from bloomdupe.shared.joining import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import scrapy


class Plain(scrapy.Spider):
    name = "plain"

    def parse(self, response):
        yield {"page": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a")


class Counting(Plain):
    def parse(self, response):
        self.state["pages"] = self.state.get("pages", 0) + 1
        yield {"page": self.state["pages"]}


class Before(Plain):
    # Its requests are for a method that others do not have.

    def parse(self, response):
        yield response.follow("/1", self.old, meta={"download_slot": "1"})
        for number in range(2, 5):
            slot = {"download_slot": str(number)}
            yield response.follow(f"/{number}", self.leaf, meta=slot)

    def old(self, response):
        yield {"page": "old"}

    def leaf(self, response):
        yield {"page": response.url.rpartition("/")[2]}


class After(Before):
    old = None
"""
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
PAGES = {f"/{number}": "a page" for number in range(5)}


class OnceBusy(dict[str, str]):
    """Pages of a server that refuses the first request for each, for a long time."""

    def __init__(self, pages: dict[str, str]) -> None:
        super().__init__(pages)
        self._asked: set[str] = set()

    def get(self, path: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Return a page, or the refusal."""
        if path not in self._asked:
            self._asked.add(path)
            return "!503 Retry-After: 1000"
        return super().get(path, default)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def times() -> list[float]:
    return []


@pytest.fixture
def pages() -> dict[str, str]:
    return dict(PAGES)


@pytest.fixture
def crew(
    tmp_path: Path, redis: RedisServer, pages: dict[str, str], times: list[float]
) -> Iterator[Crew]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with page_server(pages, times) as (base, requested):
        crew = Crew(tmp_path, base, redis, requested, FEED, "BLOOMDUPE_REDIS_LEASE=1")
        try:
            yield crew
        finally:
            crew.dismiss()


def lines(*pages: object) -> Counter[str]:
    """Return the output that has an item for each of these."""
    quoted = [f'"{page}"' if isinstance(page, str) else page for page in pages]
    return Counter(f'0 {{"page": {page}}}\n' for page in quoted)


def test_a_spider_has_a_state(crew: Crew) -> None:
    crew.hire("Counting").end()
    assert crew.items() == lines(1)


def test_what_cannot_be_restored_is_set_aside(
    crew: Crew, redis: RedisServer, capfd: pytest.CaptureFixture[str]
) -> None:
    first = crew.hire("Before", "CLOSESPIDER_PAGECOUNT=1", "CONCURRENT_REQUESTS=1")
    assert first.process.wait(DEADLINE) == 0
    for _ in range(2):  # a new worker does not mend it
        after = crew.hire("After")
        assert after.process.wait(DEADLINE) == 1, after.log
        assert after.stats["finish_reason"] == "finished"
        assert after.stats["bloomdupe/unrestorable"] == 1
        assert re.search(r"cannot be restored .*/1 - reason: .*old", after.log)
        assert "Traceback" not in after.log
        assert main(["info", redis.url("crawl")]) == 0
        shown = capfd.readouterr().out
        assert re.search(
            r"requests that cannot be restored +1\n +http.*/1: .*old", shown
        )
    with SharedFrontier.open(redis.url("crawl")) as frontier:
        found = Counter(output.line.decode() for output in frontier.outputs())
    assert found == lines("2", "3", "4")
    crew.hire("Before").end()
    assert crew.items() == lines("2", "3", "4", "old")
    main(["info", redis.url("crawl")])
    assert "cannot be restored" not in capfd.readouterr().out


def test_workers_pass_on_what_they_have_set_aside(crew: Crew) -> None:
    first = crew.hire("Before", "CLOSESPIDER_PAGECOUNT=1", "CONCURRENT_REQUESTS=1")
    assert first.process.wait(DEADLINE) == 0
    together = [crew.hire("After"), crew.hire("After")]
    for worker in together:
        assert worker.process.wait(DEADLINE) == 1, worker.log
        assert worker.stats["finish_reason"] == "finished"
        assert "Requests that cannot be restored: 1" in worker.log


# Settings


def test_the_spiders_name_stands_in_the_url(crew: Crew, redis: RedisServer) -> None:
    url = redis.url("of %(spider)s")
    crew.hire("Plain", f"BLOOMDUPE_REDIS_URL={url}").end()
    with SharedFrontier.open(redis.url("of plain")) as frontier:
        assert [output.line for output in frontier.outputs()] == [b'0 {"page": "0"}\n']


def test_only_the_spiders_name_is_replaced(crew: Crew) -> None:
    url = "redis://:secret@localhost/0#%(spyder)s"
    worker = crew.hire("Plain", f"BLOOMDUPE_REDIS_URL={url}")
    assert worker.process.wait(DEADLINE) == 1
    assert "BLOOMDUPE_REDIS_URL: only %(spider)s is replaced" in worker.log
    assert "secret" not in worker.log


OTHER_VALUES = {
    "BLOOMDUPE_ALLOW_NETWORK_FS": "1",
    "BLOOMDUPE_CHECKPOINT_INTERVAL": "3",
    "BLOOMDUPE_FEED_CHANGED": "accept",
    "BLOOMDUPE_MAX_FAILURES": "5",
    "BLOOMDUPE_METRICS_PORT": "0",
    "BLOOMDUPE_REVISIT_BOUNDS": "1,2",
    "BLOOMDUPE_REVISIT_ITEMS": "always",
    "BLOOMDUPE_WAIT": "5",
}


def test_settings_without_effect_are_refused(crew: Crew) -> None:
    for name, value in OTHER_VALUES.items():
        worker = crew.hire("Plain", f"{name}={value}")
        assert worker.process.wait(DEADLINE) == 1
        assert f"{name} = '{value}' does not work with" in worker.log


def test_supported_settings_are_settings() -> None:
    assert DEFAULTS.keys() >= SHARED
    assert not SHARED & OTHER_VALUES.keys()


def test_progress_is_logged(crew: Crew, pages: dict[str, str]) -> None:
    pages["/0"] = "<a href='/1'>x</a>"
    worker = crew.hire("Plain", "BLOOMDUPE_PROGRESS_INTERVAL=0.2", "DOWNLOAD_DELAY=600")
    crew.wait(lambda: "This worker: 1 pages" in worker.log)
    assert "8 of 8 partitions" in worker.log
    silent = crew.hire(
        "Plain", "BLOOMDUPE_PROGRESS_INTERVAL=0", "BLOOMDUPE_REDIS_URL=" + crew.url("b")
    ).end()
    assert "pages, " not in silent.log


# Sites


@pytest.mark.parametrize("pages", [OnceBusy(PAGES)])
def test_retry_after_is_obeyed_up_to_the_limit(crew: Crew, times: list[float]) -> None:
    crew.hire("Plain", "BLOOMDUPE_MAX_RETRY_AFTER=2").end()
    assert crew.items() == lines("0")
    first, second = times
    assert second - first >= 2
