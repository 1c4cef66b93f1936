"""A page that is found from several hosts: it is one page, wherever it was found."""

from __future__ import annotations

from collections import Counter

import pytest
from spiders.workers import Hosts
from support.crawl import Crawl
from support.judge import lines
from support.site import Page, links

from bloomdupe.frontier.sent_request import partition_of

pytestmark = pytest.mark.slow

PAGES = 20


def test_redirects_and_meta_that_lead_to_another_host(crawl: Crawl) -> None:
    there = crawl.site.base.replace("127.0.0.1", "0.0.0.0")  # noqa: S104
    direct = links(*(f"{there}/there{number}" for number in range(PAGES)))
    moved = [f"/moved{number}" for number in range(PAGES)]
    pages: dict[str, Page] = {
        "/0": links("/meta", f"{there}/links", *moved),
        "/meta": direct,
        "/links": direct,
    }
    for number, path in enumerate(moved):
        pages[path] = f"-> {there}/there{number}"
        pages[f"/there{number}"] = "more"
    crawl.site.pages = pages
    assert partition_of("127.0.0.1") != partition_of("0.0.0.0")  # noqa: S104
    crawl.settings |= {"CONCURRENT_REQUESTS": 1}
    expected, asked = crawl.stock(Hosts, CONCURRENT_REQUESTS=16)
    # The second worker has not seen the pages that the first worker has found.
    crawl.run(Hosts, CLOSESPIDER_PAGECOUNT=2)
    crawl.finish(Hosts)
    assert lines(crawl.items()) == expected
    assert Counter(crawl.site.take()) == asked
