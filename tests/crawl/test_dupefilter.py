"""The dupefilter in real crawls, judged by what the server was asked for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from page_server import page_server
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import RequestFingerprinter

from bloomdupe import BloomDupeFilter, BloomFilter
from bloomdupe.crawl.engines.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPIDER = """
import scrapy

class FollowSpider(scrapy.Spider):
    name = "follow"

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)

class OtherSpider(FollowSpider):
    name = "other"
"""

FINGERPRINTER = """
import hashlib

class PathOnly:
    def fingerprint(self, request):
        return hashlib.sha1(request.url.partition("?")[0].encode()).digest()
"""

PAGES = {
    "/": "<a href='/'>1</a><a href='/a'>2</a><a href='/a#x'>3</a>"
    "<a href='/b?x=1&y=2'>4</a><a href='/b?y=2&x=1'>5</a><a href='/moved'>6</a>",
    "/a": "<a href='/'>1</a><a href='/c'>2</a><a href='/%7Ed'>3</a>",
    "/b?x=1&y=2": "<a href='/c'>1</a><a href='/~d'>2</a>",
    "/c": "<a href='/a'>1</a><a href='/e'>2</a>",
    "/~d": "",
    "/%7Ed": "",
    "/e": "<a href='/f'>1</a>",
    "/f": "<a href='/'>1</a>",
    "/moved": "-> /a",
}
SCRAPYS = "scrapy.core.scheduler.Scheduler"
EACH_ONCE = ["/", "/a", "/b?x=1&y=2", "/c", "/e", "/f", "/moved", "/~d"]


@dataclass
class Crawl:
    """A crawl of a site, to be run in a folder as often as one likes."""

    folder: Path
    base: str
    requested: list[str]
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *settings: str, spider: str = "follow") -> subprocess.Popen[str]:
        code = (
            "import sys; from scrapy.crawler import CrawlerProcess;"
            "from scrapy.settings import Settings; import spiders;"
            "s = Settings(); s.setdict(dict(p.split('=', 1) for p in sys.argv[3:]),"
            " 'cmdline'); p = CrawlerProcess(s);"
            "c = {k.name: k for k in vars(spiders).values() if hasattr(k, 'name')};"
            "p.crawl(c[sys.argv[1]], start_urls=[sys.argv[2]]); p.start();"
            "sys.exit(p.bootstrap_failed)"
        )
        values = ['ADDONS={"bloomdupe.Addon": 500}', "TELNETCONSOLE_ENABLED=0"]
        values += ["REMOTE_CONTROL_ENABLED=0", "CONCURRENT_REQUESTS=1", *settings]
        process = subprocess.Popen(
            [sys.executable, "-c", code, spider, f"{self.base}/", *values],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def run(self, *settings: str, spider: str = "follow") -> tuple[int, str]:
        process = self.start(*settings, spider=spider)
        _, log = process.communicate(timeout=60)
        return process.returncode, log


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Crawl]:
    (tmp_path / "spiders.py").write_text(SPIDER)
    (tmp_path / "fingerprinters.py").write_text(FINGERPRINTER)
    with page_server(PAGES) as (base, requested):
        crawl = Crawl(tmp_path, base, requested)
        yield crawl
        for process in crawl.processes:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def paths(crawl: Crawl) -> list[str]:
    return sorted(path.replace("%7E", "~") for path in crawl.requested)


def stat(log: str, name: str) -> str | None:
    match = re.search(rf"'{re.escape(name)}': (.*?),?\n", log)
    return match[1] if match else None


# What is fetched


def test_every_page_once_the_start_page_included(crawl: Crawl) -> None:
    code, log = crawl.run("JOBDIR=job")
    assert code == 0, log
    assert paths(crawl) == EACH_ONCE


def test_scrapys_own_filter_fetches_the_start_page_twice(crawl: Crawl) -> None:
    """The control of the test above."""
    crawl.run("ADDONS={}")
    assert paths(crawl) == sorted([*EACH_ONCE, "/"])


def test_without_jobdir_it_works_in_memory_and_writes_nothing(crawl: Crawl) -> None:
    before = sorted(crawl.folder.iterdir())
    code, log = crawl.run("PYTHONDONTWRITEBYTECODE=1")
    assert code == 0, log
    assert paths(crawl) == EACH_ONCE
    assert "(in memory: no JOBDIR is set)" in log
    after = [path for path in crawl.folder.iterdir() if path.name != "__pycache__"]
    assert sorted(after) == before


def test_an_interrupted_crawl_goes_on_where_it_was(crawl: Crawl) -> None:
    code, log = crawl.run("JOBDIR=job", "CLOSESPIDER_PAGECOUNT=3")
    assert code == 0, log
    assert 3 <= len(crawl.requested) < len(EACH_ONCE)
    code, log = crawl.run("JOBDIR=job")
    assert code == 0, log
    assert paths(crawl) == EACH_ONCE
    assert re.search(r"[1-9]\d* URLs seen before \(job/bloomdupe\)", log)


def test_a_new_round_looks_at_the_start_page_again(crawl: Crawl) -> None:
    for _ in range(2):
        code, log = crawl.run("JOBDIR=job", "BLOOMDUPE_START_REQUESTS=again")
        assert code == 0, log
    assert paths(crawl) == sorted([*EACH_ONCE, "/"])


def test_a_finished_crawl_stays_finished(crawl: Crawl) -> None:
    for _ in range(3):
        code, log = crawl.run("JOBDIR=job")
        assert code == 0, log
    assert paths(crawl) == EACH_ONCE
    assert "This job was finished on" in log
    assert 'BLOOMDUPE_START_REQUESTS = "again"' in log


def test_after_a_kill_it_says_that_the_queue_is_gone(crawl: Crawl) -> None:
    scrapys = "SCHEDULER=scrapy.core.scheduler.Scheduler"
    process = crawl.start("JOBDIR=job", "DOWNLOAD_DELAY=60", scrapys)
    deadline = time.monotonic() + 60
    while not crawl.requested:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.communicate()
    code, log = crawl.run("JOBDIR=job", scrapys)
    assert code == 0
    (line,) = (line for line in log.splitlines() if "was killed" in line)
    assert "ERROR" in line
    assert "job/bloomdupe" in line
    assert "move the job directory away" in line
    assert Counter(crawl.requested)["/"] == 2  # the queue is lost: all it can do


def test_sigterm_and_ctrl_c_count_as_clean(crawl: Crawl) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        process = crawl.start("JOBDIR=job", "DOWNLOAD_DELAY=0.3")
        count = len(crawl.requested)
        deadline = time.monotonic() + 60
        while len(crawl.requested) < count + 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        _, log = process.communicate()
        assert "was killed" not in log
    code, log = crawl.run("JOBDIR=job")
    assert code == 0, log
    assert paths(crawl) == EACH_ONCE


def test_the_projects_own_fingerprinter_decides(crawl: Crawl) -> None:
    crawl.run(
        "JOBDIR=job",
        "REQUEST_FINGERPRINTER_CLASS=fingerprinters.PathOnly",
        spider="other",
    )
    assert sum(path.startswith("/b?") for path in crawl.requested) == 1
    # To it, /~d and /%7Ed are two pages.
    assert {"/~d", "/%7Ed"} <= set(crawl.requested)


def test_the_fingerprints_are_what_is_kept(crawl: Crawl) -> None:
    crawl.run("JOBDIR=job")
    fingerprint = RequestFingerprinter().fingerprint
    with BloomFilter.open(crawl.folder / "job/bloomdupe") as seen:
        assert len(seen) == len(EACH_ONCE) + 1, "and that the start page was scheduled"
        for path in EACH_ONCE:
            assert fingerprint(Request(crawl.base + path)) in seen
        assert fingerprint(Request(crawl.base + "/absent")) not in seen


def test_exact_urls_survive_a_filter_that_calls_everything_seen(crawl: Crawl) -> None:
    options = [
        "BLOOMDUPE_EXPECTED_URLS=1",
        "BLOOMDUPE_FPP=0.5",
        "BLOOMDUPE_GROWTH=warn",
    ]
    crawl.run(*options, "JOBDIR=job", "CLOSESPIDER_PAGECOUNT=1")
    store = crawl.folder / "job/bloomdupe"
    with BloomFilter.open(store, growth="warn") as seen:
        seen.update(str(number) for number in range(1_000_000))
    crawl.run(*options, "JOBDIR=job")
    assert len(crawl.requested) < len(EACH_ONCE)  # the control: pages are lost

    crawl.requested.clear()
    options.append(r"BLOOMDUPE_EXACT_URLS=127\.0\.0\.1")
    crawl.run(*options, "JOBDIR=exact", "CLOSESPIDER_PAGECOUNT=1")
    with BloomFilter.open(crawl.folder / "exact/bloomdupe", growth="warn") as seen:
        seen.update(str(number) for number in range(1_000_000))
    code, log = crawl.run(*options, "JOBDIR=exact")
    assert code == 0, log
    assert paths(crawl) == EACH_ONCE
    assert "holds no longer" in log


# What is told


@pytest.mark.parametrize("debug", [0, 1])
def test_stats_and_log_are_those_of_scrapys_own_filter(
    crawl: Crawl, debug: int
) -> None:
    _, ours = crawl.run(f"DUPEFILTER_DEBUG={debug}")
    crawl.requested.clear()
    _, stock = crawl.run(f"DUPEFILTER_DEBUG={debug}", "ADDONS={}")
    lines = [
        sum("Filtered duplicate request" in line for line in log.splitlines())
        for log in (ours, stock)
    ]
    counts = [int(stat(log, "dupefilter/filtered") or 0) for log in (ours, stock)]
    # The start page counts as seen from the start; its second fetch has no new links.
    assert counts[0] > 1
    assert lines[0] == (counts[0] if debug else 1)
    assert lines[1] == (counts[1] if debug else 1)
    assert ("no more duplicates will be shown" in ours) == (not debug)


def test_it_says_at_the_start_what_it_is(crawl: Crawl) -> None:
    _, log = crawl.run(
        "JOBDIR=job", "BLOOMDUPE_EXPECTED_URLS=1e6", "BLOOMDUPE_FPP=1e-4"
    )
    assert (
        "Duplicate filter: 1000000 expected URLs, false-positive probability 0.0001,"
        " 2.5 MB of memory when full; 0 URLs seen before (job/bloomdupe)" in log
    )


@pytest.mark.parametrize("scheduler", ["bloomdupe.FrontierScheduler", SCRAPYS])
def test_a_filter_that_may_not_grow_stops_the_crawl_and_loses_nothing(
    crawl: Crawl, scheduler: str
) -> None:
    options = ["JOBDIR=job", "BLOOMDUPE_EXPECTED_URLS=3", f"SCHEDULER={scheduler}"]
    _, log = crawl.run(*options, "BLOOMDUPE_GROWTH=error")
    assert stat(log, "finish_reason") == "'filter_full'"
    assert "capacity of 3 keys" in log
    assert "BLOOMDUPE_GROWTH = 'grow'" in log
    assert len(crawl.requested) < len(EACH_ONCE)
    code, log = crawl.run(*options)
    assert code == 0, log
    assert set(paths(crawl)) == set(EACH_ONCE)


def test_its_own_stats(crawl: Crawl) -> None:
    _, log = crawl.run("JOBDIR=job", "BLOOMDUPE_CONFIRM=1")
    assert stat(log, "bloomdupe/seen") == str(len(EACH_ONCE) + 1)
    assert stat(log, "bloomdupe/layers") == "1"
    assert float(stat(log, "bloomdupe/current_fpp") or 1) < 1e-6
    assert stat(log, "bloomdupe/expected_loss") == "0.0"
    assert stat(log, "bloomdupe/measured_fpp") == "0.0"
    assert float(stat(log, "bloomdupe/measured_fpp_high") or 0) > 0
    assert int(stat(log, "bloomdupe/memory_bytes") or 0) > 0
    assert int(stat(log, "bloomdupe/disk_bytes") or 0) > 0


def test_growth_is_seen_in_the_stats(crawl: Crawl) -> None:
    _, log = crawl.run("BLOOMDUPE_EXPECTED_URLS=3")
    assert stat(log, "bloomdupe/layers") == "2"
    assert "The filter reached its capacity at " in log


# What is refused


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("owner.lock", "lock.mdb")
    }


@pytest.mark.parametrize(
    ("settings", "spider", "message"),
    [
        (
            [],
            "other",
            "made with spider = 'follow', now it is 'other': set JOBDIR back",
        ),
        (
            ["REQUEST_FINGERPRINTER_CLASS=fingerprinters.PathOnly"],
            "follow",
            "set REQUEST_FINGERPRINTER_CLASS back",
        ),
        (["BLOOMDUPE_EXPECTED_URLS=5"], "follow", "set BLOOMDUPE_EXPECTED_URLS back"),
        (
            ["BLOOMDUPE_FPP=0.01"],
            "follow",
            "= 1e-06, now it is 0.01: set BLOOMDUPE_FPP",
        ),
        (["BLOOMDUPE_CONFIRM=1"], "follow", "set BLOOMDUPE_CONFIRM back"),
        (["BLOOMDUPE_EXACT_URLS=x"], "follow", "set BLOOMDUPE_EXACT_URLS back"),
    ],
)
def test_another_crawls_store_is_refused_and_left_alone(
    crawl: Crawl, settings: list[str], spider: str, message: str
) -> None:
    crawl.run("JOBDIR=job", "CLOSESPIDER_PAGECOUNT=2")
    before = files(crawl.folder / "job")
    requested = list(crawl.requested)
    code, log = crawl.run("JOBDIR=job", *settings, spider=spider)
    assert code == 1
    assert message in log
    assert "another JOBDIR" in log
    assert files(crawl.folder / "job") == before
    assert crawl.requested == requested


def test_a_second_crawl_of_the_same_job_is_refused(crawl: Crawl) -> None:
    first = crawl.start("JOBDIR=job", "DOWNLOAD_DELAY=60")
    deadline = time.monotonic() + 60
    while not crawl.requested:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    code, log = crawl.run("JOBDIR=job")
    assert code == 1
    assert f"job/bloomdupe is in use by process {first.pid}" in log
    assert not (crawl.folder / "job/spider.state").exists()
    assert first.poll() is None


@pytest.mark.parametrize("kind", ["foreign", "garbage"])
def test_a_foreign_store_is_refused_and_left_alone(crawl: Crawl, kind: str) -> None:
    place = crawl.folder / "job/bloomdupe"
    place.mkdir(parents=True)
    name = "data.mdb" if kind == "garbage" else "thesis.tex"
    (place / name).write_bytes(b"x" * 10_000)
    before = files(crawl.folder / "job")
    code, log = crawl.run("JOBDIR=job")
    assert code == 1
    assert "job/bloomdupe" in log
    assert files(crawl.folder / "job") == before
    assert crawl.requested == []


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "BLOOMDUPE_EXPECTED_URLS=0",
            "BLOOMDUPE_EXPECTED_URLS = '0': expected a whole",
        ),
        ("BLOOMDUPE_EXPECTED_URLS=-5", "BLOOMDUPE_EXPECTED_URLS = '-5'"),
        ("BLOOMDUPE_EXPECTED_URLS=many", "BLOOMDUPE_EXPECTED_URLS = 'many'"),
        ("BLOOMDUPE_EXPECTED_URLS=nan", "BLOOMDUPE_EXPECTED_URLS = 'nan'"),
        ("BLOOMDUPE_EXPECTED_URLS=1e18", "BLOOMDUPE_EXPECTED_URLS: capacity = 1,000,"),
        ("BLOOMDUPE_FPP=0", "BLOOMDUPE_FPP = '0': expected a probability"),
        ("BLOOMDUPE_FPP=1", "BLOOMDUPE_FPP = '1'"),
        ("BLOOMDUPE_FPP=abc", "BLOOMDUPE_FPP = 'abc'"),
        ("BLOOMDUPE_EARLY_DROP=maybe", "BLOOMDUPE_EARLY_DROP = 'maybe': expected True"),
        ("BLOOMDUPE_GROWTH=often", "BLOOMDUPE_GROWTH = 'often': expected one of grow"),
        ("BLOOMDUPE_CONFIRM=2", "BLOOMDUPE_CONFIRM = '2': expected a share"),
        ("BLOOMDUPE_EXACT_URLS=(", "BLOOMDUPE_EXACT_URLS: '(' is not a regular"),
        ("BLOOMDUPE_CHECKPOINT_INTERVAL=0", "BLOOMDUPE_CHECKPOINT_INTERVAL = '0'"),
        ("JOBDIR=spiders.py", "spiders.py is a file; name a directory"),
        ("JOBDIR=spiders.py/job", "spiders.py is a file; name a directory"),
    ],
)
def test_bad_settings_are_refused_by_name(
    crawl: Crawl, setting: str, message: str
) -> None:
    jobdir = [] if setting.startswith("JOBDIR") else ["JOBDIR=job"]
    code, log = crawl.run(*jobdir, setting)
    assert code == 1
    assert message in log
    assert not (crawl.folder / "job").exists()
    assert crawl.requested == []


# The add-on


def test_the_add_on_respects_the_users_own_filter(crawl: Crawl) -> None:
    own = "scrapy.dupefilters.RFPDupeFilter"
    code, log = crawl.run("JOBDIR=job", f"DUPEFILTER_CLASS={own}")
    assert code == 0, log
    assert "keeps its marks apart" in log
    assert (crawl.folder / "job/requests.seen").exists()


def test_the_dupefilter_works_without_the_add_on(crawl: Crawl) -> None:
    code, log = crawl.run(
        "JOBDIR=job", "ADDONS={}", "DUPEFILTER_CLASS=bloomdupe.BloomDupeFilter"
    )
    assert code == 0, log
    assert paths(crawl) == EACH_ONCE
    assert (crawl.folder / "job/bloomdupe/data.mdb").exists()


def test_a_retry_of_a_start_request_is_no_start_request(tmp_path: Path) -> None:
    """It inherits ``is_start_request``; skipped on resume, its page would be lost."""
    crawler = Crawler(Spider, {"JOBDIR": str(tmp_path / "job")})
    job = Job.of(Spider("follow"), crawler.settings)
    stats = StatsCollector(crawler)
    for reason in ("shutdown", "finished"):
        filter_ = BloomDupeFilter(job, RequestFingerprinter(), stats)
        filter_.open()
        start = Request(
            "http://a.example/", dont_filter=True, meta={"is_start_request": True}
        )
        if reason == "finished":
            retry = start.replace(meta={**start.meta, "retry_times": 1})
            filter_.mark_scheduled(retry)
            with pytest.raises(IgnoreRequest):
                filter_.mark_scheduled(start)
        else:
            filter_.mark_scheduled(start)
        filter_.close(reason)
