"""What a request costs before it is pending: the same answers as Scrapy gives."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydispatch import dispatcher  # type: ignore[import-untyped]
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.signalmanager import SignalManager
from scrapy.spidermiddlewares import referer
from support.jobs import idle_crawler
from url_lists import BASES, SEED, at_random, real, result, specified

from bloomdupe.inside_scrapy.faster import ScheduledSignal, find_slots_faster
from bloomdupe.links.fast_follow import faster


def request_of(url: str, **more: Any) -> Request:
    """Return a request whose URL nothing has escaped or checked."""
    request = Request("http://a.example/", **more)
    request._url = url
    return request


def downloader_of(kind: type[Downloader] = Downloader, by_ip: int = 0) -> Any:
    downloader: Any = kind.__new__(kind)
    downloader.ip_concurrency = by_ip
    crawler: Any = SimpleNamespace(engine=SimpleNamespace(downloader=downloader))
    find_slots_faster(crawler)
    return downloader


def test_every_request_has_the_slot_that_scrapy_finds() -> None:
    downloader = downloader_of()
    urls = [url for pair in at_random(random.Random(SEED), 5_000) for url in pair]
    for url in (*urls, *BASES, *real(every=10), *specified()):
        for meta in ({}, {"download_slot": "mine"}):
            request = request_of(url, meta=meta)
            usual = result(Downloader.get_slot_key, downloader, request)
            assert result(downloader.get_slot_key, request) == usual, url


def test_other_downloaders_find_slots_by_themselves() -> None:
    class Mine(Downloader):
        def get_slot_key(self, _: Request) -> str:
            return "mine"

    for downloader in (downloader_of(Mine), downloader_of(by_ip=1)):
        assert "get_slot_key" not in vars(downloader)


class Strict(OffsiteMiddleware):
    def should_follow(self, request: Request, spider: Spider) -> bool:
        return "/odd" not in request.url and super().should_follow(request, spider)


class Side:
    """An engine with its listeners, and what has come of its signals."""

    def __init__(self, kind: type[OffsiteMiddleware] | None, *, fast: bool) -> None:
        self.crawler = cast("Any", idle_crawler())
        self.crawler.spider = Spider("any")
        self.signals = SignalManager(self.crawler.signals.sender)
        self.crawler.engine = SimpleNamespace(signals=self.signals)
        if kind is not None:
            self.offsite = kind.from_crawler(self.crawler)
            self.offsite.spider_opened(self.crawler.spider)
        self.heard: list[str] = []
        if fast:
            ScheduledSignal(self.crawler)

    def hear(self, request: Request) -> None:
        self.heard.append(request.url)

    def step(self, verb: str, value: Any) -> list[Any]:
        spider, signal = self.crawler.spider, signals.request_scheduled
        if verb == "allow":
            spider.allowed_domains = value
        elif verb == "connect":
            sender = self.crawler.signals.sender if value[1] else dispatcher.Any
            any_ = dispatcher.Any
            dispatcher.connect(self.hear, signal if value[0] else any_, sender)
        elif verb == "disconnect":
            sender = self.crawler.signals.sender
            result(dispatcher.disconnect, self.hear, signal, sender)
        else:
            url, more = value
            found = self.signals.send_catch_log(
                signal, request=request_of(url, **more), spider=spider,
                dont_log=IgnoreRequest,
            )  # fmt: skip
            failures = [getattr(one, "value", None) for _, one in found]
            return [type(one) for one in failures if one is not None]
        return []


DOMAINS: list[Any] = [None, [], ["a.example"], ["b.example", "a.example"]]
URLS = ["http://a.example/", "http://x.a.example/odd", "http://b.example/", "http://[a"]
MORE: list[dict[str, Any]] = [
    {}, {}, {"dont_filter": True}, {"meta": {"allow_offsite": True}},
]  # fmt: skip


@pytest.mark.parametrize("kind", [OffsiteMiddleware, Strict, None])
def test_a_signal_that_is_not_sent_had_no_effect(kind: Any) -> None:
    draw = random.Random(SEED)
    stock, mine = Side(kind, fast=False), Side(kind, fast=True)
    for _ in range(2_000):
        verb: str = "send"
        value: Any = None
        if not draw.randrange(10):
            verb = draw.choice(["allow", "connect", "disconnect"])
        if verb == "send":
            # A URL that is invalid is only looked at where a domain is asked for.
            allowed = getattr(mine.crawler.spider, "allowed_domains", None)
            value = draw.choice(URLS if allowed else URLS[:-1]), draw.choice(MORE)
        elif verb == "allow":
            value = draw.choice(DOMAINS)
        elif verb == "connect":
            value = True, True
        assert mine.step(verb, value) == stock.step(verb, value), (verb, value)
    assert mine.heard == stock.heard
    assert len(mine.heard) > 100
    assert mine.crawler.stats.get_stats() == stock.crawler.stats.get_stats()


@pytest.mark.parametrize("of", [(True, False), (False, True), (False, False)])
def test_who_hears_everything_hears_of_requests(of: tuple[bool, bool]) -> None:
    mine = Side(OffsiteMiddleware, fast=True)
    mine.step("send", (URLS[0], {}))
    mine.step("connect", of)
    mine.step("send", (URLS[0], {}))
    assert mine.heard == URLS[:1]


def test_the_referer_middleware_gets_what_its_functions_return() -> None:
    for name in ("strip_url", "urlparse"):
        original, replacement, places = faster()[name]
        assert places == (referer.__name__,)
        for url in (*BASES, *specified()):
            assert result(replacement, url) == result(original, url)
