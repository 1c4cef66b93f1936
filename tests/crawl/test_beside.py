"""Components of Scrapy and of others that stand beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.test import get_crawler
from support.page_server import page_server
from support.small_site import JOB, Site

from bloomdupe.crawl.http_cache import WholeCache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPIDERS = """
import scrapy


class One(scrapy.Spider):
    name = "one"

    def parse(self, response):
        pass
"""
DELTAFETCH = """
from scrapy.exceptions import NotConfigured


class DeltaFetch:
    @classmethod
    def from_crawler(cls, crawler):
        if not crawler.settings.getbool("DELTAFETCH_ENABLED"):
            raise NotConfigured
        return cls()
"""
NAME = "scrapy_deltafetch.middleware.DeltaFetch"
DERIVED = "spiders.Derived"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    derived = f"\nfrom {NAME.rpartition('.')[0]} import DeltaFetch\n"
    derived += "class Derived(DeltaFetch): pass\n"
    (tmp_path / "spiders.py").write_text(SPIDERS + derived)
    package = tmp_path / "scrapy_deltafetch"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "middleware.py").write_text(DELTAFETCH)
    with page_server({"/": ""}) as (base, requested):
        yield Site(tmp_path, base, requested)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("middlewares", "enabled", "warned"),
    [
        (f'{{"{NAME}": 100}}', 1, True),
        (f'{{"{DERIVED}": 100}}', 1, True),
        (f'{{"{NAME}": 100}}', 0, False),
        (f'{{"{NAME}": null}}', 1, False),
        ("{}", 1, False),
    ],
)
def test_a_memory_of_its_own_is_warned_of_if_it_is_in_use(
    site: Site, middlewares: str, enabled: int, warned: bool
) -> None:
    settings = [f"SPIDER_MIDDLEWARES={middlewares}", f"DELTAFETCH_ENABLED={enabled}"]
    log = site.crawl("One", JOB, *settings)["log"]
    assert (f"{NAME} notes at once" in log) == warned
    assert "Traceback" not in log


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
    crawler = get_crawler(Spider, {"HTTPCACHE_DIR": str(tmp_path)})
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
