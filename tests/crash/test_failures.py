"""A store that fails during a real crawl: the reason, the words, the exit status.

Plain ``scrapy runspider``, which knows nothing of the plugin, on the sample site.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.harness import DEADLINE, SampleProcess, sample_process

pytestmark = pytest.mark.slow

SPIDER = """
import scrapy
from scrapy.linkextractors import LinkExtractor

class Plain(scrapy.Spider):
    name = "plain"
    custom_settings = {
        "ADDONS": {"bloomdupe.Addon": 500},
        "BLOOMDUPE_EXPECTED_URLS": 1000,
        "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.05,
        "HTTPERROR_ALLOW_ALL": True,
    }

    def __init__(self, start_url):
        self.start_urls = [start_url]

    def parse(self, response):
        if isinstance(response, scrapy.http.HtmlResponse):
            for link in LinkExtractor(deny="/private").extract_links(response):
                yield response.follow(link)
"""
STOCK = ("-s", "SCHEDULER=scrapy.core.scheduler.Scheduler")


def crawl(
    folder: Path,
    url: str,
    *options: str,
    limit: int | None = None,
    fault: str = "",
    spider: str = SPIDER,
) -> tuple[int, str]:
    """Run to the end; return exit status and log."""
    (folder / "plain.py").write_text(spider)
    command = [sys.executable, "-m", "scrapy", "runspider", "plain.py"]
    command += ["-a", f"start_url={url}", "-s", "JOBDIR=job", *options]
    if fault:
        command = ["strace", "-f", "-o", "/dev/null", "-e", f"inject={fault}", *command]

    def limited() -> None:
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        preexec_fn=limited,
    )
    return done.returncode, done.stderr


def lost(server: SampleProcess) -> set[str]:
    asked = {path for _, path in server.requests()}
    expected = {path for _, path in server.site.expected_requests()}
    # Scrapy's link extractor passes by files and some of the odd ones.
    unasked = ("/odd/", "/files/", "/robots.txt")
    return {path for path in expected - asked if not path.startswith(unasked)}


@pytest.mark.parametrize(
    ("options", "limit"),
    [((), 56 << 10), (STOCK, 36 << 10)],
    ids=["frontier", "filter alone"],
)
def test_a_full_disk_has_its_reason_and_exit_status(
    tmp_path: Path, options: tuple[str, ...], limit: int
) -> None:
    with sample_process(tmp_path, 60) as server:
        status, log = crawl(tmp_path, server.url, *options, limit=limit)
        assert status == 1, log
        assert "(frontier_disk_full)" in log
        assert "bytes free); the last checkpoint stands; make room" in log
        assert "bloomdupe/data.mdb" in log
        assert log.count("so the crawl stops") == 1
        status, log = crawl(tmp_path, server.url, *options)
        assert status == 0, log
        assert not lost(server)


def test_a_failing_disk_has_its_reason_and_exit_status(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        if os.environ.get("BLOOMDUPE_TEST_ALL"):
            pytest.fail("needs strace")
        pytest.skip("needs strace")
    with sample_process(tmp_path, 60) as server:
        fault = "fdatasync:error=EIO:when=6"
        status, log = crawl(tmp_path, server.url, fault=fault)
        assert status == 1, log
        assert "(frontier_io_error)" in log
        assert "the last checkpoint stands; look at the system's log" in log
        status, log = crawl(tmp_path, server.url)
        assert status == 0, log
        assert not lost(server)


def test_a_deleted_data_file_ends_the_crawl(tmp_path: Path) -> None:
    """No data is written into a file that has no name any more."""
    with sample_process(tmp_path, 60) as server:
        vanishing = SPIDER.replace(
            "def parse(self, response):\n",
            "def parse(self, response):\n"
            "        pathlib.Path('job/bloomdupe/data.mdb').unlink(missing_ok=True)\n",
        )
        status, log = crawl(tmp_path, server.url, spider="import pathlib" + vanishing)
        assert status == 1, log
        assert "(frontier_io_error)" in log
        assert "data.mdb was deleted, replaced or cut short" in log
        status, log = crawl(tmp_path, server.url)
        assert status == 1, log
        assert "data.mdb was deleted" in log
        assert "a copy of the last backup" in log
