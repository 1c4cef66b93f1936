"""What a user has done to a job by hand, and what its crawl makes of it.

Judged by the server's log.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.page_server import page_server
from support.small_site import JOB, PAGES, Site

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

SPIDER = """
import scrapy

class LinksSpider(scrapy.Spider):
    name = "links"

    def parse(self, response):
        yield from response.follow_all(css="a")


class PlainStart(scrapy.Spider):
    # Its start requests meet the filter.
    name = "plain"

    async def start(self):
        for url in self.start_urls:
            yield scrapy.Request(url)

    def parse(self, response):
        pass
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "spiders.py").write_text(SPIDER)
    with page_server(PAGES) as (base, requested):
        yield Site(tmp_path, base, requested)


def verb(site: Site, *arguments: str) -> None:
    script = str(Path(sys.executable).with_name("bloomdupe"))
    done = subprocess.run(
        [script, *arguments], cwd=site.folder, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def half(site: Site) -> None:
    """Crawl the start page and a few others, and stop."""
    site.crawl("LinksSpider", JOB, "CLOSESPIDER_PAGECOUNT=1", "CONCURRENT_REQUESTS=1")


@pytest.mark.parametrize(
    ("rule", "kept_out"),
    [
        (["--pattern", "/[ab]1$"], {"/a1", "/b1"}),
        (["{base}/c1#top"], {"/c1"}),
        (["--slot", "127.0.0.1", "--pattern", "e$"], {"/e", "/e1"}),
    ],
)
def test_what_is_blocked_is_not_fetched_until_it_is_unblocked(
    site: Site, rule: list[str], kept_out: set[str]
) -> None:
    rule = [word.format(base=site.base) for word in rule]
    half(site)
    verb(site, "block", "job", *rule)
    stats = site.crawl("LinksSpider", JOB)
    fetched = set(site.take())
    assert fetched == PAGES.keys() - kept_out
    assert stats["finish_reason"] == "finished"
    found_later = {path for path in kept_out if path.endswith("1")} - {"/e1"}
    assert stats.get("bloomdupe/dropped_blocked", 0) == len(found_later)
    assert ("of `bloomdupe block` keep requests out" in stats["log"]) is True

    verb(site, "block", "job", *rule, "--undo")
    assert "keep requests out" not in site.crawl("LinksSpider", JOB)["log"]


def test_start_requests_and_redirects_are_blocked_too(site: Site) -> None:
    half(site)
    site.take()
    verb(site, "block", "job", "--slot", "127.0.0.1")
    stats = site.crawl("LinksSpider", JOB, starts=("/", "/f", "/new"))
    assert site.take() == []
    # Those that were dropped by hand are seen; only the new one comes to the rule.
    assert stats["bloomdupe/dropped_blocked"] == 3


def test_without_rules_nothing_is_said(site: Site) -> None:
    """The control: it is the rule that keeps them out."""
    half(site)
    stats = site.crawl("LinksSpider", JOB)
    assert set(site.take()) == PAGES.keys()
    assert "bloomdupe/dropped_blocked" not in stats
    assert "keep requests out" not in stats["log"]


def test_a_finished_job_goes_on_with_what_was_added(site: Site) -> None:
    site.crawl("LinksSpider", JOB)
    site.take()
    new, known = f"{site.base}/new", f"{site.base}/a"
    verb(site, "add", "job", new, known)
    stats = site.crawl("LinksSpider", JOB)
    assert site.take() == ["/new"]
    assert stats["finish_reason"] == "finished"
    verb(site, "requeue", "job", known)
    site.crawl("LinksSpider", JOB)
    assert site.take() == ["/a"]
    site.crawl("LinksSpider", JOB)
    assert site.take() == []


def test_what_a_page_redirects_to_is_followed_again(tmp_path: Path) -> None:
    """It was seen in the first round, but it is what the page has become."""
    (tmp_path / "spiders.py").write_text(SPIDER)
    moved = {"/": "-> /there", "/there": "-> /here", "/here": "x"}
    with page_server(moved) as (base, requested):
        site = Site(tmp_path, base, requested)
        site.crawl("PlainStart", JOB)
        assert site.take() == [*moved]
        verb(site, "requeue", "job", f"{base}/")
        site.crawl("PlainStart", JOB)
        assert site.take() == [*moved]
        site.crawl("PlainStart", JOB, "BLOOMDUPE_START_REQUESTS=again")
        assert site.take() == [*moved]
        site.crawl("PlainStart", JOB)
        assert site.take() == []


def test_a_page_that_was_asked_for_by_hand_comes_again_as_before(site: Site) -> None:
    """Its rule was taken away and given back; nothing but a hand brings it back."""
    never = [JOB, "BLOOMDUPE_WAIT=0", "CLOSESPIDER_PAGECOUNT=2"]
    rule = 'BLOOMDUPE_REVISIT=[["/f1$", 0.2]]'
    start = ("/f1",)
    site.crawl("PlainStart", *never, rule, starts=start)
    time.sleep(0.2)
    site.crawl("PlainStart", JOB, starts=start)
    assert site.take().count("/f1") >= 2
    stats = site.crawl("PlainStart", *never, rule, starts=start)
    assert stats["bloomdupe/later"] == 0
    assert site.take() == []
    verb(site, "requeue", "job", f"{site.base}/f1")
    stats = site.crawl("PlainStart", *never, rule, starts=start)
    assert stats["bloomdupe/later"] == 1
    # Asked for once more while it waits, it does not come twice as often.
    script = str(Path(sys.executable).with_name("bloomdupe"))
    asked = subprocess.run(
        [script, "requeue", "job", f"{site.base}/f1"],
        cwd=site.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.stdout == "0 wait now\n1 waited already: left as they are\n"


def test_what_was_dropped_is_not_fetched_and_a_job_is_begun_by_hand(site: Site) -> None:
    urls = [f"{site.base}/{name}" for name in "abc"]
    verb(site, "add", "job", *urls, "--spider", "links")
    verb(site, "drop", "job", urls[1])
    stats = site.crawl("LinksSpider", JOB, starts=())
    assert stats["finish_reason"] == "finished"
    assert "/b" not in site.requested
    assert set(site.take()) >= {"/a", "/c", "/a1", "/"}


def test_a_job_that_was_half_imported_waits(site: Site) -> None:
    half(site)
    verb(site, "export", "job", "lines")
    lines = (site.folder / "lines").read_text().splitlines(keepends=True)
    (site.folder / "part").write_text("".join(lines[:3]))
    with pytest.raises(AssertionError, match="cut off"):
        verb(site, "import", "copy", "part")
    site.take()
    process = site.start("LinksSpider", "JOBDIR=copy")
    _, log = process.communicate(timeout=60)
    assert "was interrupted: run it again" in log
    assert site.take() == []
    verb(site, "import", "copy", "lines")
    site.crawl("LinksSpider", "JOBDIR=copy")
    fetched = site.take()
    assert set(fetched) | {"/"} >= PAGES.keys()
    assert "/" not in fetched  # it was done, and its mark came, too


def test_a_crawl_says_that_an_import_could_not_read_a_request(site: Site) -> None:
    half(site)
    verb(site, "export", "job", "lines")
    lines = (site.folder / "lines").read_text().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if line.startswith('{"url"'))
    lines[number] = '{"url"\n'
    (site.folder / "damaged").write_text("".join(lines))
    with pytest.raises(AssertionError, match="returncode=1"):
        verb(site, "import", "copy", "damaged")
    for jobdir, says in (("copy", True), ("job", False)):
        process = site.start("LinksSpider", f"JOBDIR={jobdir}")
        _, log = process.communicate(timeout=60)
        assert ("1 requests are missing in this job" in log) == says
