"""A page that a kill has cut off, and that answers otherwise when it is asked again.

It is redirected, or to be tried later, or asks for a captcha. What it had brought about
before the kill must not come twice, by whichever request it is yielded again.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from page_server import Server, running
from small_site import JOB, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

Answer = tuple[int, dict[str, str], str]
"""Status, headers, body."""

SPIDERS = """
import asyncio, os, signal
from pathlib import Path
import scrapy
from scrapy import Request
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import CloseSpider


class Parent(scrapy.Spider):
    name = "parent"

    async def start(self):
        yield Request(self.start_urls[0], errback=self.failed, dont_filter=True)

    async def parse(self, response):
        if response.text == "captcha":
            if self.settings.getbool("BY_HELPER"):
                yield get_retry_request(response.request, spider=self, reason="captcha")
            else:
                yield response.request.replace(dont_filter=True)
            return
        yield {"page": "early"}
        for name in "abc":
            yield response.follow("/" + name, self.child, dont_filter=True)
        yield response.follow("/marked", self.child)
        if not Path("killed").exists():
            await asyncio.sleep(1)  # their pages are done, and in a checkpoint
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"page": "late"}
        yield response.follow("/d", self.child, dont_filter=True)

    def child(self, response):
        yield {"page": response.url.rpartition("/")[2]}

    def failed(self, failure):
        yield failure.request.replace(dont_filter=True)


class Polling(scrapy.Spider):
    # Asks for a page that its own retry or redirect asks for, too.
    name = "polling"

    async def parse(self, response):
        depth = response.meta["depth"]
        if depth == 0:
            yield response.follow(self.settings["CHILD"], dont_filter=True)
            if not Path("killed").exists():
                await asyncio.sleep(1)  # it is done, and in a checkpoint
                Path("killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        yield {"page": str(depth)}


class Closing(scrapy.Spider):
    name = "closing"

    def parse(self, response):
        for number in range(6):
            yield {"page": str(number)}
            if number == 3 and not Path("closed").exists():
                Path("closed").touch()
                raise CloseSpider("enough")
        yield response.follow("/d", self.child, dont_filter=True)

    def child(self, response):
        yield {"page": response.url.rpartition("/")[2]}


class Banned(scrapy.Spider):
    # Is closed by what comes in the place of the page, after an item that says so.
    name = "banned"

    async def start(self):
        yield Request(self.start_urls[0], errback=self.failed, dont_filter=True)

    def parse(self, response):
        text = response.text
        if text == "captcha":
            yield {"page": "captcha"}
            raise CloseSpider("banned")
        yield {"page": "0"}
        yield {"page": "1"}
        if text == "first":
            raise CloseSpider("enough")
        yield {"page": "2"}

    def failed(self, failure):
        yield {"page": "failed"}
        raise CloseSpider("failed")
"""

EARLIER = """
from bloomdupe.crawl.leases.cut_short import CutShort

prepare = CutShort.prepare


def prepared(self):
    part = prepare(self)
    if "cut_short" in part.record:  # as an earlier version has it
        (key,), (answers,) = part.record["cut_short"], part.record["cut_short"].values()
        part.record["cut_short"] = {key: sum(answers.values())}
    return part


CutShort.prepare = prepared
"""


CLOSING = """
    name = "closing"

    def parse(self, response):
"""
BANNED = """        if response.text == "captcha":
            yield {"page": "captcha"}
            raise CloseSpider("banned")
"""


class Changing(Server):
    """Answers its start page otherwise, the second time that this is asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.count: Counter[str] = Counter()
        self.first: Answer = (200, {}, "page")
        self.second: Answer = (200, {}, "page")
        self.next: Answer | None = None
        """The next answer to whoever asks for the start page."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Changing

    def do_GET(self) -> None:
        server = self.server
        with server.lock:
            server.count[self.path] += 1
            number = server.count["/"] if self.path == "/" else 0
            answers = {1: server.first, 2: server.second}
            answer = answers.get(number, (200, {}, "page"))
            if self.path == "/" and server.next is not None:
                answer, server.next = server.next, None
        status, headers, body = answer
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Changing:
    return Changing()


@pytest.fixture
def site(tmp_path: Path, server: Changing) -> Iterator[Site]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with running(server) as base:
        yield Site(tmp_path, base, [])


def items(site: Site) -> Counter[str]:
    lines = (site.folder / "items.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["page"] for line in lines)


FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
OPTIONS = [JOB, FEED, "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"]
LATER: Answer = (503, {}, "later")
MOVED: Answer = (302, {"Location": "/elsewhere"}, "")
CAPTCHA: Answer = (200, {}, "captcha")


@pytest.mark.parametrize(
    ("second", "options"),
    [
        (LATER, ["RETRY_ENABLED=1"]),
        (LATER, ["RETRY_ENABLED=1", "BLOOMDUPE_RETRY_BACKOFF=0.2,2,1"]),
        (LATER, []),  # the errback asks for it once more
        (MOVED, []),
        (CAPTCHA, []),
        (CAPTCHA, ["RETRY_ENABLED=1", "BY_HELPER=1"]),
    ],
    ids=["retry", "later", "errback", "redirect", "captcha", "helper"],
)
def test_children_do_not_come_twice(
    site: Site,
    server: Changing,
    second: Answer,
    options: list[str],
) -> None:
    server.second = second
    process = site.start("Parent", *OPTIONS, *options)
    process.communicate(timeout=60)
    assert process.returncode == -9
    assert server.count["/marked"] == 1
    stats = site.crawl("Parent", *OPTIONS, *options)
    assert stats["finish_reason"] == "finished"
    children = {
        path: server.count[path] for path in ("/a", "/b", "/c", "/marked", "/d")
    }
    assert set(children.values()) == {1}
    assert items(site) == Counter(["early", "late", "a", "b", "c", "marked", "d"])


@pytest.mark.parametrize("second", [LATER, MOVED], ids=["retry", "redirect"])
def test_items_before_the_end_do_not_come_twice(
    site: Site, server: Changing, second: Answer
) -> None:
    server.second = second
    options = [*OPTIONS, "RETRY_ENABLED=1"]
    stats = site.crawl("Closing", *options)
    assert stats["finish_reason"] == "enough"
    stats = site.crawl("Closing", *options)
    assert stats["finish_reason"] == "finished"
    assert items(site) == Counter("012345d")


@pytest.mark.parametrize(
    ("answer", "child"), [(LATER, "/"), (MOVED, "/elsewhere"), (None, "/")]
)
def test_a_retry_or_redirect_is_no_child(
    site: Site, server: Changing, answer: Answer | None, child: str
) -> None:
    """Taken for one, it would be dropped, and what the page yields be lost."""
    options = [*OPTIONS, "RETRY_ENABLED=1", f"CHILD={child}"]
    process = site.start("Polling", *options)
    _, log = process.communicate(timeout=60)
    assert process.returncode == -9, log
    server.next = answer
    assert site.crawl("Polling", *options)["finish_reason"] == "finished"
    assert items(site) == {"0": 1, "1": 1}


FIRST: Answer = (200, {}, "first")
GONE: Answer = (404, {}, "page")


@pytest.mark.parametrize(
    ("first", "item"),
    [(GONE, "failed"), (CAPTCHA, "captcha")],
    ids=["error", "captcha"],
)
def test_the_page_loses_nothing_for_what_came_in_its_place(
    site: Site, server: Changing, first: Answer, item: str
) -> None:
    server.first = first
    site.crawl("Banned", *OPTIONS)
    assert items(site) == Counter([item])
    stats = site.crawl("Banned", *OPTIONS)
    assert stats["finish_reason"] == "finished"
    assert items(site) == Counter([item, "0", "1", "2"])


@pytest.mark.parametrize("first", [GONE, CAPTCHA], ids=["error", "captcha"])
def test_the_same_answer_once_more_brings_nothing_new(
    site: Site, server: Changing, first: Answer
) -> None:
    server.first = server.second = first
    for _ in range(2):
        site.crawl("Banned", *OPTIONS)
        assert items(site).total() == 1
    site.crawl("Banned", *OPTIONS)
    assert items(site).total() == 4


def test_a_page_is_remembered_whatever_comes_in_between(
    site: Site, server: Changing
) -> None:
    server.second = CAPTCHA
    site.crawl("Closing", *OPTIONS)
    assert items(site) == Counter("0123")
    spiders = site.folder / "spiders.py"
    spiders.write_text(spiders.read_text().replace(CLOSING, CLOSING + BANNED))
    stats = site.crawl("Closing", *OPTIONS)
    assert stats["finish_reason"] == "banned"
    stats = site.crawl("Closing", *OPTIONS)
    assert stats["finish_reason"] == "finished"
    assert items(site) == Counter([*"012345d", "captcha"])


def test_a_page_that_is_another_one_is_taken_as_a_whole(
    site: Site, server: Changing
) -> None:
    server.first = FIRST
    site.crawl("Banned", *OPTIONS)
    assert items(site) == Counter("01")
    site.crawl("Banned", *OPTIONS)
    assert items(site) == Counter("00112")


def test_what_an_earlier_version_has_counted_is_left_out_of_any_answer(
    site: Site, server: Changing
) -> None:
    server.first = FIRST
    site.crawl("Banned", *OPTIONS, before=EARLIER)
    site.crawl("Banned", *OPTIONS)
    assert items(site) == Counter("012")
