"""Components of Scrapy and of third parties that run beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from spiders.beside import One, install
from support.crawl import Crawl
from support.jobs import idle_crawler

from bloomdupe.crawl.http_cache import WholeCache

NAME = "scrapy_deltafetch.middleware.DeltaFetch"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("middlewares", "enabled", "warned"),
    [
        ({NAME: 100}, 1, True),
        ({"spiders.beside.Derived": 100}, 1, True),
        ({NAME: 100}, 0, False),
        ({NAME: None}, 1, False),
        ({}, 1, False),
    ],
)
def test_a_component_with_a_database_of_its_own_gets_a_warning(
    crawl: Crawl, middlewares: dict[str, int | None], enabled: int, warned: bool
) -> None:
    run = crawl.run(
        One,
        before=install,
        DELTAFETCH_ENABLED=enabled,
        SPIDER_MIDDLEWARES=middlewares,
    )
    assert (f"{NAME} records an item as soon as" in run.log) == warned
    assert "Traceback" not in run.log


class Meddled(Response):
    """Lets another crawl store the same answer while it is being stored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.others: list[WholeCache] = []

    @property
    def body(self) -> bytes:
        while self.others:
            self.others.pop().store_response(Spider("s"), Request(self.url), self)
        return super().body


def test_two_crawls_may_store_an_answer_at_once(tmp_path: Path) -> None:
    crawler = idle_crawler(HTTPCACHE_DIR=str(tmp_path))
    spider = crawler._create_spider("s")
    spider.crawler = crawler
    crawler.spider = spider
    caches = [WholeCache(crawler.settings) for _ in range(2)]
    for cache in caches:
        cache.open_spider(spider)
    response = Meddled("http://a.example/", body=b"whole")
    response.others.append(caches[1])
    request = Request(response.url)
    caches[0].store_response(spider, request, response)
    stored = caches[0].retrieve_response(spider, request)
    assert stored is not None
    assert stored.body == b"whole"
