"""What the command line says of workers: real ones, one of which is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from crew import NAME, Crew, graph
from support.page_server import page_server
from support.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import asyncio
from pathlib import Path

import scrapy

GO = Path(__file__).parent / "go"


class All(scrapy.Spider):
    # Most pages wait for the test.
    name = "all"

    async def parse(self, response):
        while int(response.url.rpartition("/")[2]) >= 40 and not GO.exists():
            await asyncio.sleep(0.02)
        yield {"page": response.url}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta={"download_slot": str(int(href[1:]) % 7)})
"""
SIZE = 300
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def crew(tmp_path: Path, redis: RedisServer) -> Iterator[Crew]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with page_server(graph(SIZE)) as (base, requested):
        crew = Crew(tmp_path, base, redis, requested, FEED, "BLOOMDUPE_REDIS_LEASE=2")
        try:
            yield crew
        finally:
            crew.dismiss()


class Eyes:
    """Calls verbs with ``--json``, and reads what they say."""

    def __init__(self, redis: RedisServer) -> None:
        self._url = redis.url(NAME)

    def lines(self, verb: str, *options: str) -> list[str]:
        command = [sys.executable, "-m", "bloomdupe.cli.main", verb, self._url]
        return subprocess.check_output([*command, *options], text=True).splitlines()

    def see(self, verb: str, *options: str) -> dict[str, Any]:
        found = json.loads("".join(self.lines(verb, "--json", *options)))
        assert isinstance(found, dict)
        return found

    def job(self) -> dict[str, Any]:
        found: dict[str, Any] = self.see("info")["job"]
        return found


def test_a_crawl_seen_from_its_beginning_to_its_end(
    crew: Crew, redis: RedisServer, tmp_path: Path
) -> None:
    eyes = Eyes(redis)
    one, two = (crew.hire("All") for _ in range(2))
    crew.wait(lambda: one.works and two.works)
    # A partition of which something is under way is not given to another worker yet.
    crew.wait(lambda: len(eyes.job()["workers"]) == 2)
    job = eyes.job()
    assert job["state"] == "running"
    owned = sum(w["partitions"] for w in job["workers"])
    assert owned + job["unowned_partitions"] == 8
    assert job["done"] <= len(crew.requested)
    assert job["pending"] + job["leased"] > 0
    assert job["done"] + job["leased"] + job["pending"] == job["taken_in"]
    owed = [json.loads(line) for line in eyes.lines("list", "--json")]
    assert {o["callback"] for o in owed} == {"parse"}
    names = {worker["name"] for worker in job["workers"]}
    assert {o["worker"] for o in owed if "worker" in o} <= names
    assert all(name in one.log + two.log for name in names)
    seen = eyes.see("top", "--interval", "0.1")
    assert {w["name"] for w in seen["workers"]} == names
    one.kill()
    crew.wait(lambda: [w["partitions"] for w in eyes.job()["workers"]] == [8])
    (left,) = eyes.job()["workers"]
    assert left["name"] in two.log
    (tmp_path / "go").touch()
    two.end()
    job = eyes.job()
    assert (job["state"], job["workers"]) == ("finished", [])
    assert (job["pending"], job["leased"]) == (0, 0)
    # The start page comes once as a start request, and once as a link.
    assert job["done"] in (SIZE, SIZE + 1)
    assert eyes.lines("list") == []
