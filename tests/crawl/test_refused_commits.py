"""Refused commits: the crawl goes on from the last commit, in the same process."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from scrapy import Spider
from spiders.refused import Varied, refuse
from support.crawl import FEEDS, Crawl
from support.jobs import idle_crawler
from support.site import Page, links

from bloomdupe.crawl.state.attributes import ATTRIBUTES, SpiderAttributes

pytestmark = pytest.mark.slow

NAMES = "abcdefgh"
PAGES: dict[str, Page] = {
    "/": links(*(f"/{name}" for name in NAMES)),
    **{f"/{name}": links(f"/{name}1", f"/{name}2") for name in NAMES},
    **{f"/{name}{number}": "" for name in NAMES for number in (1, 2)},
}


@pytest.fixture
def pages() -> dict[str, Page]:
    found = dict(PAGES)
    for path in PAGES:
        for kind in ("again", "memory", "child", "part0", "part1"):
            found[f"{path}?{kind}"] = ""
    return found


def expected(site: str) -> Counter[str]:
    pages = [f"{site}{path}" for path in PAGES]
    items = ["start", f"{site}/?again", f"{site}/?memory"]
    for page in pages:
        items += [page, f"{page}?child", f"{page}?part0 {page}?part1"]
    return Counter(items)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_and_nothing_comes_twice(crawl: Crawl, seed: int) -> None:
    crawl.settings |= {"FEEDS": FEEDS, "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.02}
    process = crawl.start(Varied, before=partial(refuse, seed, 12))
    run = process.wait()
    assert "was refused" in run.log
    if run.status:  # it was the last commit
        run = crawl.run(Varied)
    found = Counter(item["item"] for item in crawl.items())
    assert found == expected(crawl.site.base)
    assert run.finish_reason == "finished"


def test_a_last_commit_that_is_refused_leaves_the_rest_to_the_next_run(
    crawl: Crawl,
) -> None:
    crawl.settings |= {"FEEDS": FEEDS, "BLOOMDUPE_CHECKPOINT_INTERVAL": 1000}
    run = crawl.run(Varied, before=partial(refuse, 1, 1000), status=1)
    assert "another worker has it" in run.log
    assert crawl.run(Varied).finish_reason == "finished"
    found = Counter(item["item"] for item in crawl.items())
    assert found == expected(crawl.site.base)


def test_the_spider_remembers_what_it_did_at_the_last_commit() -> None:
    crawler = idle_crawler()
    spider: Any = Spider("remembers")
    crawler.spider = spider
    spider.known = {"a"}
    attributes = SpiderAttributes(crawler, None, resumed=False)
    attributes.spider_opened()
    spider.known.add("b")
    part = attributes.prepare()
    part.done()
    spider.known.add("c")
    spider.further = 1
    attributes.read_again(part.blobs[ATTRIBUTES])
    assert spider.known == {"a", "b"}
    assert not hasattr(spider, "further")
    attributes.read_again(None)
    assert spider.known == {"a"}
