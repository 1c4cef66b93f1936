"""Crawls judged by the log of the server and by the items written."""

from __future__ import annotations

from collections import Counter

import pytest
import scrapy
from support.project import Project, Sample
from support.site import Site, links

pytestmark = pytest.mark.slow

ROBOTS = (200, "/robots.txt")


def test_a_crawl_fetches_every_page_once_also_if_it_is_run_again(
    project: Project, sample: Sample
) -> None:
    for _ in range(2):
        log = project.crawl("-a", f"url={sample.url}")
        assert f"Job {sample.folder}: finished; 100 pages so far, items in " in log
        assert sample.requests() == sample.site.expected_requests()
        found = project.statuses(f"{sample.folder}/items.jsonl")
        assert found == sample.site.expected_pages(sample.url)


def test_max_pages_counts_over_the_whole_job_and_loses_nothing(
    project: Project, sample: Sample
) -> None:
    items = f"{sample.folder}/items.jsonl"
    url = f"url={sample.url}"
    fetched: Counter[tuple[int, str]] = Counter()
    # Else a slow process has any number of answers to look at.
    alone = ("-s", "CONCURRENT_REQUESTS=1")
    for _ in range(2):
        log = project.crawl("-a", url, "-a", "max_pages=30", *alone)
        assert "not finished (max_pages); 30 pages so far" in log
        assert len(project.items(items)) == 30
        fetched = fetched or sample.requests()
    # In older versions CloseSpider in start() does not stop the requests that wait:
    # the second run fetches some, and puts them back.
    prompt = scrapy.version_info >= (2, 19)
    if prompt:
        assert sample.requests() - fetched - Counter([ROBOTS]) == Counter()
    project.crawl("-a", url, "-a", "max_pages=1000")
    assert project.statuses(items) == sample.site.expected_pages(sample.url)
    # Only requests that were on their way when the number was reached come twice.
    surplus = sample.requests() - sample.site.expected_requests()
    surplus.pop(ROBOTS)
    if prompt:
        assert surplus.total() <= 2  # one in the downloader, one in the scraper


def test_allow_and_deny_choose_links_and_redirects(
    project: Project, sample: Sample
) -> None:
    options = ("-a", "allow=/(page|old|new|private)/", "-a", "deny=/(new|page/1.)")
    project.crawl("-a", f"url={sample.url}", *options)
    paths = {path for _, path in sample.requests()}
    assert {"/", "/robots.txt", "/page/1", "/old/0"} < paths
    assert {path.split("/")[1] for path in paths} == {"", "robots.txt", "page", "old"}
    assert "/page/10" not in paths


def test_other_hosts_are_followed_only_if_named(
    project: Project, sample: Sample
) -> None:
    other = sample.url.removeprefix("http://").rstrip("/")
    pages = {"/": links(f"{sample.url}files/0.txt", "/ok")}
    with Site(pages | {"/ok": "ok"}) as site:
        job = "127.0.0.1~" + site.base.rpartition(":")[2]
        project.crawl("-a", f"url={site.base}/")
        assert sorted(site.requested) == ["/", "/ok", "/robots.txt"]
        assert not sample.requests()
        project.crawl(
            "-a", f"url={site.base}/", "-a", f"hosts={other}", "-s", "JOBDIR=with hosts"
        )
        assert (200, "/files/0.txt") in sample.requests()
    assert project.jobs()[:2] == ["crawls", f"crawls/{job}"]
    assert (project.folder / "with hosts/items.jsonl").exists()


def test_a_page_is_described(project: Project) -> None:
    pages = {
        "/": "<title> The\n start\u00e9 </title><a href='/next'>x</a>",
        "/next": "-> /end",
        "/end": "",
    }
    with Site(pages) as site:
        project.crawl("-a", f"url={site.base}/", "-O", "out.jsonl")
    start, end = project.items("out.jsonl")
    assert not list((project.folder / "crawls").glob("*/items.jsonl"))
    assert start["url"] == f"{site.base}/"
    assert start["title"] == "The start\u00e9"
    assert (start["depth"], start["referrer"]) == (0, None)
    assert start["length"] == len(pages["/"].encode())
    assert start["content_type"] == "text/html; charset=utf-8"
    assert start["time"].endswith("+00:00")
    assert (end["url"], end["title"]) == (f"{site.base}/end", "")
    assert (end["depth"], end["status"]) == (1, 200)


def test_a_start_page_on_another_host_is_reported(project: Project) -> None:
    with Site({"/": "x"}) as there, Site({"/": f"-> {there.base}/"}) as here:
        log = project.crawl("-a", f"url={here.base}/")
    assert f"add -a hosts={there.base.removeprefix('http://')}" in log


def test_a_crawl_whose_start_page_fails_has_failed_and_says_so_again(
    project: Project,
) -> None:
    with Site({}) as site:
        for _ in range(2):
            log = project.crawl("-a", f"url={site.base}/", code=1)
            assert "not finished (start_failed)" in log
            assert "remove the folder crawls/" in log
    log = project.crawl("-a", f"url={site.base}/", "-s", "JOBDIR=other", code=1)
    assert f"Start page failed: {site.base}/: " in log
