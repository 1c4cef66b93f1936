"""Crawls that move to Redis, to be shared: real processes, a real Redis, a real site.

What is wanted is read off the site's links, and what was fetched off its log.
"""

from __future__ import annotations

import json
import pickle
import re
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from crew import DEADLINE, Crew, Worker, graph
from scrapy import Request, Spider
from support.jobs import killed_after
from support.page_server import page_server
from support.redis_server import RedisServer
from support.shared_data import needs_package

from bloomdupe.links.scrapy_redis import ScrapyRedisFingerprinter
from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SIZE = 150
SPIDERS = """
import scrapy


class All(scrapy.Spider):
    # Pages of one site, as if they were on seven hosts.
    name = "all"

    def parse(self, response):
        yield {"page": int(response.url.rpartition("/")[2])}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta={"download_slot": str(int(href[1:]) % 7)})


class Other(All):
    name = "other"
"""
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
THEIRS = "bloomdupe.links.scrapy_redis.ScrapyRedisFingerprinter"
SETTINGS = """
SPIDER_MODULES = ["spiders"]
ADDONS = {"bloomdupe.Addon": 500}
FEEDS = {"items.jsonl": {"format": "jsonlines"}}
BLOOMDUPE_EXPECTED_URLS = 10_000
BLOOMDUPE_REDIS_PARTITIONS = 8
"""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def crew(tmp_path: Path, redis: RedisServer) -> Iterator[Crew]:
    """Return workers, in a folder that is that of their project, too."""
    (tmp_path / "spiders.py").write_text(SPIDERS)
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = moving_settings\n")
    with page_server(graph(SIZE)) as (base, requested):
        crew = Crew(tmp_path, base, redis, requested, FEED, "BLOOMDUPE_REDIS_LEASE=1")
        try:
            yield crew
        finally:
            crew.dismiss()


class Move:
    """Calls the command in the folder of the project."""

    def __init__(self, folder: Path, redis: RedisServer) -> None:
        self.folder = folder
        self.keys = f"unix://{redis.socket}"
        self.crawl = redis.url("crawl")
        self.settings("")

    def settings(self, more: str) -> None:
        """Write the settings of the project."""
        (self.folder / "moving_settings.py").write_text(SETTINGS + more)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "bloomdupe.cli.main", *map(str, arguments)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *arguments: object, code: int = 0) -> str:
        """Return what the command says, errors if it fails as expected."""
        called = self.start(*arguments)
        out, err = called.communicate(timeout=DEADLINE)
        assert called.returncode == code, out + err
        return err if code else out


@pytest.fixture
def move(tmp_path: Path, redis: RedisServer) -> Move:
    return Move(tmp_path, redis)


# What scrapy-redis has begun


def links_of(number: int) -> list[int]:
    page = graph(SIZE)[f"/{number}"]
    return [int(found) for found in re.findall(r"href='/(\d+)'", page)]


def begun(base: str, redis: RedisServer, done: int) -> tuple[set[int], set[int]]:
    """Leave the keys of a crawl by scrapy-redis; return what is done, and what waits.

    So many pages are done, in the order in which they were found.
    """
    found, at = [0], 0
    while at < done:
        found += [n for n in links_of(found[at]) if n not in found]
        at += 1
    fingerprint = ScrapyRedisFingerprinter().fingerprint
    with redis.client() as client:
        for place, number in enumerate(found):
            url = f"{base}/{number}"
            if number:  # a start page is not marked
                client.sadd("all:dupefilter", fingerprint(Request(url)).hex())
            if place >= done:
                given = as_dict(url, meta={"download_slot": str(number % 7)})
                client.zadd("all:requests", {pickle.dumps(given, protocol=-1): 0})
    return set(found[:done]), set(found[done:])


def as_dict(url: str, **arguments: Any) -> dict[str, Any]:
    return Request(url, **arguments).to_dict(spider=Spider("all"))


def paths(numbers: set[int]) -> Counter[str]:
    return Counter(f"/{number}" for number in numbers)


def pages_of(items: Counter[str]) -> Counter[str]:
    """Return the pages that the lines of a feed are about."""
    found: Counter[str] = Counter()
    for line, count in items.items():
        found["/" + line.split()[-1].rstrip("}")] += count
    return found


def test_what_scrapy_redis_has_begun_is_finished_by_workers(
    crew: Crew, redis: RedisServer, move: Move
) -> None:
    done, waits = begun(crew._base, redis, 60)
    move.settings(f"REQUEST_FINGERPRINTER_CLASS = {THEIRS!r}\n")
    out = move.call("import", move.crawl, move.keys, "--spider", "all")
    assert out.startswith(
        f"{len(waits)} requests wait now\n{len(done | waits) - 1} URLs count as seen\n"
    )
    # Once more: nothing is taken in twice.
    out = move.call("import", move.crawl, move.keys)
    assert out.startswith(f"0 requests wait now\n{len(waits)} were dealt with before\n")
    theirs = f"REQUEST_FINGERPRINTER_CLASS={THEIRS}"
    together = [crew.hire("All", theirs) for _ in range(2)]
    for worker in together:
        worker.end()
    # The start page was never marked, so it is fetched once more.
    expected = paths(set(range(SIZE)) - done | {0})
    assert crew.take() == expected
    assert pages_of(crew.items()) == expected


KILLS = [
    ("bloomdupe.redis.imports:Imports.begin", 1),
    ("bloomdupe.redis.shared_frontier:SharedFrontier.offer", 3),
    ("bloomdupe.redis.imports:Imports.keep", 4),
    ("bloomdupe.redis.shared_frontier:SharedFrontier.offer", 5),
    ("bloomdupe.redis.imports:Imports.mark", 1),
    ("bloomdupe.redis.imports:Imports.mark", 3),
]
"""The steps after which an import is killed, one import after the other."""


def test_an_import_that_is_killed_goes_on(
    redis: RedisServer, move: Move, tmp_path: Path
) -> None:
    """Requests with dont_filter, of which no filter can tell that they were taken."""
    (tmp_path / "spiders.py").write_text(SPIDERS)
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = moving_settings\n")
    move.settings(f"REQUEST_FINGERPRINTER_CLASS = {THEIRS!r}\n")
    fingerprint = ScrapyRedisFingerprinter().fingerprint
    waits, seen = 12_000, 15_000
    with redis.client() as client:
        given = [
            as_dict("https://a.example/", meta={"n": n}, dont_filter=True)
            for n in range(waits)
        ]
        given.append(as_dict("https://a.example/other"))
        client.zadd(
            "all:requests", {pickle.dumps(one, protocol=-1): 0 for one in given}
        )
        marks = [Request(f"https://a.example/{n}") for n in range(seen)]
        marks.append(Request("https://a.example/other"))
        client.sadd("all:dupefilter", *(fingerprint(one).hex() for one in marks))
        words = ["import", move.crawl, move.keys, "--spider", "all"]
        for step, times in KILLS:
            killed_after(step, times, *words, cwd=tmp_path)
            assert client.hexists("bloomdupe:{crawl}", "importing")
        refused = move.call("import", move.crawl, "-", "--spider", "x", code=2)
        assert "is that of spider 'all'" in refused
        move.call("import", move.crawl, move.keys)
        assert not client.hexists("bloomdupe:{crawl}", "importing")
    with SharedFrontier.open(move.crawl, lease_seconds=600) as one:
        one.tend()
        leases = one.lease(waits * 2, waits * 2)
        payloads = {lease.payload for lease in leases}
        assert len(leases) == len(payloads) == waits + 1
        keys = [fingerprint(each) for each in marks]
        assert all(one.imports.knows(keys))


def test_nobody_works_while_something_is_imported(
    crew: Crew, redis: RedisServer, move: Move
) -> None:
    begun(crew._base, redis, 60)
    theirs = f"REQUEST_FINGERPRINTER_CLASS={THEIRS}"
    move.settings(theirs.replace("=", " = '", 1) + "'\n")
    # A worker that is there, and stopped for a while, knows nothing of it.
    slow = "DOWNLOAD_DELAY=600", "BLOOMDUPE_REDIS_LEASE=20"
    early = crew.hire("All", theirs, *slow)
    crew.wait(lambda: bool(crew.requested))
    refused = move.call("import", move.crawl, move.keys, code=1)
    assert "1 workers are there, which do not know what is being imported" in refused
    early.process.send_signal(signal.SIGSTOP)
    with redis.client() as client:
        client.delete("bloomdupe:{crawl}:workers")  # as if its lease had run out
    move.call("import", move.crawl, move.keys)
    with redis.client() as client:
        client.hset("bloomdupe:{crawl}", "importing", 1)  # as if it had not ended
    late = crew.hire("All", theirs)
    assert late.process.wait(DEADLINE) == 1
    assert "an import into it has not ended" in late.log
    early.process.send_signal(signal.SIGCONT)
    early.process.wait(DEADLINE)
    assert early.stats["finish_reason"] != "finished"


def test_a_list_comes_in_while_workers_work(
    crew: Crew, move: Move, tmp_path: Path
) -> None:
    worker = crew.hire("All", "DOWNLOAD_DELAY=0.1")
    crew.wait(lambda: len(crew.requested) > 3)
    lines = tmp_path / "lines"
    # In the slot that the spider gives it: each looks after what was seen in it.
    known = json.dumps({"url": f"{crew._base}/1", "slot": "1"})
    lines.write_text(f"{known}\n{crew._base}/extra\n")
    out = move.call("import", move.crawl, lines)
    assert out == "1 requests wait now\n1 were seen before: dropped\n"
    worker.end()
    crew.hire("All").end()  # if the first one had ended before
    assert crew.take() == paths(set(range(SIZE))) + Counter(["/extra"])


def test_a_list_comes_into_a_crawl_that_is_cut_by_url(
    crew: Crew, move: Move, tmp_path: Path
) -> None:
    by_url = "BLOOMDUPE_REDIS_PARTITION_BY"
    move.settings(f"{by_url} = 'url'\n")
    lines = tmp_path / "lines"
    lines.write_text(f"{crew._base}/{SIZE - 1}\n")
    move.call("import", move.crawl, lines, "--spider", "all")
    crew.hire("All", f"{by_url}=url").end()
    assert f"/{SIZE - 1}" in crew.take()


def test_settings_that_workers_will_not_have_are_told_apart(
    crew: Crew, move: Move, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text(f"{crew._base}/1\n")
    assert "--spider NAME says whose" in move.call("import", move.crawl, lines, code=2)
    move.settings("BLOOMDUPE_CONFIRM = 1\n")
    assert "BLOOMDUPE_CONFIRM = 1 does not work with BLOOMDUPE_REDIS_URL" in move.call(
        "import", move.crawl, lines, "--spider", "all", code=2
    )
    move.settings("")
    move.call("import", move.crawl, lines, "--spider", "all")
    move.settings("FEEDS = {'others.jsonl': {'format': 'jsonlines'}}\n")
    assert "FEEDS: " in move.call("import", move.crawl, lines, code=1)
    move.settings("")
    assert "is that of spider 'all'" in move.call(
        "import", move.crawl, lines, "--spider", "other", code=2
    )
    assert "SOURCE is missing" in move.call("import", move.crawl, code=2)


# Jobs of one process, and back


def half_of(crew: Crew, worker: Worker, enough: int) -> Counter[str]:
    """Stop a worker in good order when so much was asked for; return what was."""
    crew.wait(lambda: len(crew.requested) > enough)
    worker.process.send_signal(signal.SIGINT)
    assert worker.process.wait(DEADLINE) == 0
    return crew.take()


def test_a_job_goes_on_shared(crew: Crew, move: Move, tmp_path: Path) -> None:
    job = tmp_path / "job"
    addon = 'ADDONS={"bloomdupe.Addon": 500}'
    expected = "BLOOMDUPE_EXPECTED_URLS=10000"
    alone = crew.hire("All", addon, expected, f"JOBDIR={job}", shared=False)
    first = half_of(crew, alone, SIZE // 3)
    file = tmp_path / "export"
    move.call("export", job, file)
    move.call("import", move.crawl, file)
    together = [crew.hire("All") for _ in range(2)]
    for worker in together:
        worker.end()
    rest = crew.take()
    assert first
    assert rest
    assert first + rest == paths(set(range(SIZE)))
    assert pages_of(crew.items()) == rest


def test_a_job_that_scrapy_has_stopped_goes_on_shared(
    crew: Crew, move: Move, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    alone = crew.hire("All", f"JOBDIR={job}", "DOWNLOAD_DELAY=0.05", shared=False)
    first = half_of(crew, alone, SIZE // 3)
    move.call("import", move.crawl, job, "--spider", "all")
    for worker in [crew.hire("All") for _ in range(2)]:
        worker.end()
    # Scrapy does not mark the start page.
    assert first + crew.take() == paths(set(range(SIZE))) + paths({0})


def test_a_job_goes_on_shared_without_a_file(
    crew: Crew, move: Move, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    addon = 'ADDONS={"bloomdupe.Addon": 500}'
    alone = crew.hire("All", addon, f"JOBDIR={job}", shared=False)
    first = half_of(crew, alone, SIZE // 3)
    # Another capacity than the workers': the filter comes over as it is.
    move.call("import", move.crawl, job)
    crew.hire("All").end()
    assert first + crew.take() == paths(set(range(SIZE)))
    file = tmp_path / "export"
    assert "no store can hold both" in move.call("export", move.crawl, file, code=1)
    move.call("export", move.crawl, file, "--without-marks")


def test_a_shared_crawl_goes_on_alone(crew: Crew, move: Move, tmp_path: Path) -> None:
    first = half_of(crew, crew.hire("All", "DOWNLOAD_DELAY=0.05"), SIZE // 3)
    file, job = tmp_path / "export", tmp_path / "job"
    move.call("export", move.crawl, file)
    move.call("import", job, file)
    expected = "BLOOMDUPE_EXPECTED_URLS=10000"
    addon = 'ADDONS={"bloomdupe.Addon": 500}'
    crew.hire("All", addon, expected, f"JOBDIR={job}", shared=False).end()
    rest = crew.take()
    assert first
    assert rest
    assert first + rest == paths(set(range(SIZE)))


def test_there_and_back_again(
    crew: Crew, redis: RedisServer, move: Move, tmp_path: Path
) -> None:
    """From one Redis to another, alone for a while, and to a third."""
    slow = "DOWNLOAD_DELAY=0.05"
    done = half_of(crew, crew.hire("All", slow), SIZE // 5)
    job = tmp_path / "job"
    move.call("export", move.crawl, tmp_path / "first")
    second = redis.url("second")
    move.call("import", second, tmp_path / "first")
    worker = crew.hire("All", slow, f"BLOOMDUPE_REDIS_URL={second}")
    done += half_of(crew, worker, SIZE // 5)
    move.call("export", second, tmp_path / "second")
    move.call("import", job, tmp_path / "second")
    settings = 'ADDONS={"bloomdupe.Addon": 500}', f"JOBDIR={job}"
    expected = "BLOOMDUPE_EXPECTED_URLS=10000"
    alone = crew.hire("All", slow, expected, *settings, shared=False)
    done += half_of(crew, alone, SIZE // 5)
    # Of another shape than a filter on Redis has: what was taken over goes along.
    move.call("export", job, tmp_path / "third")
    third = redis.url("third")
    move.call("import", third, tmp_path / "third")
    # Once more to another one, which has filters of all kinds now.
    move.call("export", third, tmp_path / "fourth")
    fourth = f"BLOOMDUPE_REDIS_URL={redis.url('fourth')}"
    move.call("import", redis.url("fourth"), tmp_path / "fourth")
    for worker in [crew.hire("All", fourth) for _ in range(2)]:
        worker.end()
    assert done + crew.take() == paths(set(range(SIZE)))


def test_nobody_works_while_it_is_exported(
    crew: Crew, redis: RedisServer, move: Move, tmp_path: Path
) -> None:
    file = tmp_path / "export"
    worker = crew.hire("All", "DOWNLOAD_DELAY=600", "BLOOMDUPE_REDIS_LEASE=20")
    crew.wait(lambda: bool(crew.requested))
    assert "workers are there (1 at least)" in move.call(
        "export", move.crawl, file, code=1
    )
    worker.kill()
    assert "BLOOMDUPE_REDIS_LEASE has run out" in move.call(
        "export", move.crawl, file, code=1
    )
    assert not file.exists()
    with redis.client() as client:  # as if it had
        client.delete("bloomdupe:{crawl}:workers")
        for number in range(8):
            client.hset(f"bloomdupe:{{crawl:{number}}}:state", "until", 0)
        assert any(client.hlen(f"bloomdupe:{{crawl:{n}}}:leased") for n in range(8))
    move.call("export", move.crawl, file)
    # What it had in hand is in the file, too.
    found = [json.loads(line).get("url") for line in file.read_text().splitlines()]
    with SharedFrontier.open(move.crawl) as frontier:
        owed = sum(counts.pushed - counts.done for counts in frontier.counts())
    assert sum(url is not None for url in found) == owed
    assert not list(tmp_path.glob("bloomdupe-*"))


def test_another_cut_cannot_take_over_what_is_seen(
    crew: Crew, redis: RedisServer, move: Move, tmp_path: Path
) -> None:
    crew.hire("All").end()
    file = tmp_path / "export"
    move.call("export", move.crawl, file)
    move.settings("BLOOMDUPE_REDIS_PARTITIONS = 4\n")
    other = redis.url("other")
    assert "seen in a crawl with BLOOMDUPE_REDIS_PARTITIONS = 8, " in move.call(
        "import", other, file, code=1
    )
    with redis.client() as client:
        assert not client.exists("bloomdupe:{other}")
    out = move.call("import", other, file, "--without-marks")
    assert out == "0 requests wait now\n"


def test_workers_of_scrapy_redis_are_followed_by_ours(crew: Crew, move: Move) -> None:
    needs_package("scrapy_redis")
    theirs = (
        "SCHEDULER=scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS=scrapy_redis.dupefilter.RFPDupeFilter",
        f"REDIS_URL={move.keys}",
        "SCHEDULER_PERSIST=1",
        f"CLOSESPIDER_PAGECOUNT={SIZE // 5}",
    )
    for worker in [crew.hire("All", *theirs, shared=False) for _ in range(2)]:
        assert worker.process.wait(DEADLINE) == 0, worker.log
    first = crew.take()
    assert 0 < len(first) < SIZE
    move.settings(f"REQUEST_FINGERPRINTER_CLASS = {THEIRS!r}\n")
    move.call("import", move.crawl, move.keys, "--spider", "all")
    ours = f"REQUEST_FINGERPRINTER_CLASS={THEIRS}"
    for worker in [crew.hire("All", ours) for _ in range(2)]:
        worker.end()
    everything = first + crew.take()
    del everything["/0"]  # a start page is not marked there
    assert everything == paths(set(range(1, SIZE)))
