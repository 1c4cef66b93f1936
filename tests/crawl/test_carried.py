"""Requests in memory that count apart from their page, and those that cannot."""

from __future__ import annotations

import datetime
import io
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, TextResponse
from spiders.functions import (
    AgainBeside,
    ByHand,
    Closures,
    MeetsAtStart,
    MeetsByHand,
    OnceMore,
    Retries,
    Stops,
    StopsNoMore,
    StopsNoMoreWithObject,
    StopsWithObject,
    TwoWays,
)
from support.crawl import Crawl, Process
from support.engines import on_both_engines
from support.site import Pages, graph

from bloomdupe.crawl.leases.carried import MOST_VALUES, Carried, CarriedValues
from bloomdupe.crawl.requests.callbacks import Callbacks
from bloomdupe.crawl.requests.middleware_values import MiddlewareValues

SIZE = 60
EVERY = 35
"""Of so many answers, some are leaves in any order: 30 pages have links."""
MOST_RUNS = 3
URL = "http://a.example/"
PAGE = HtmlResponse(URL, body=b"<p><a href='/1'>1</a><a href='/2'>2</a></p>")
ROWS = PAGE.css("a")


@pytest.fixture
def pages() -> Pages:
    others = ("", "closure", "method", "page", "child", "memory")
    return {**graph(SIZE, across=0), **{f"/{path}": "a page" for path in others}}


def module_function(response: object, *more: object) -> None: ...


def make(value: object) -> Callable[..., Any]:
    return lambda _: value


class Methods(Spider):
    """Methods that return callbacks, all of which have the ``value``."""

    name = "methods"

    def parse(self, *_: object, **__: object) -> object: ...

    def closure(self, value: object) -> Callable[..., Any]:
        return lambda r: self.parse(r, value)

    def default(self, value: object) -> Callable[..., Any]:
        return lambda r, value=value: self.parse(r, value)

    def keyword(self, value: object) -> Callable[..., Any]:
        def callback(r: object, *, value: object = value) -> None:
            self.parse(r, value)

        return callback

    def argument(self, value: object) -> Callable[..., Any]:
        return partial(self.parse, value)

    def named(self, value: object) -> Callable[..., Any]:
        return partial(self.parse, value=value)

    def inner(self, value: object) -> Callable[..., Any]:
        def use(r: object) -> object:
            return self.parse(r, value)

        return lambda r: [use(r)]

    def counted(self) -> Callable[..., Any]:
        number = 0

        def callback(_: object) -> int:
            nonlocal number
            number += 1
            return number

        return callback

    def unset(self) -> Callable[..., Any]:
        def callback(_: object) -> object:
            return later

        if self.name:
            return callback
        later = 1
        return callback


@pytest.fixture(scope="module")
def spider() -> Methods:
    return Methods()


@pytest.fixture
def values(spider: Methods) -> CarriedValues:
    return CarriedValues(Callbacks(spider))


NOTHING = MiddlewareValues(Request(URL))


WAYS: list[Callable[[Methods, Any], dict[str, Any]]] = [
    lambda spider, value: {"callback": spider.closure(value)},
    lambda spider, value: {"callback": spider.default(value)},
    lambda spider, value: {"callback": spider.keyword(value)},
    lambda spider, value: {"callback": spider.argument(value)},
    lambda spider, value: {"callback": spider.named(value)},
    lambda spider, value: {"callback": spider.inner(value)},
    lambda spider, value: {"errback": spider.closure(value)},
    lambda _, value: {"meta": {"value": value}},
    lambda _, value: {"cb_kwargs": {"value": value}},
    lambda spider, value: (
        {"callback": spider.closure((value,))}
        if isinstance(value, int)
        else {"callback": partial(spider.argument(value))}
    ),
]
"""How a request may come by a value."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("value", "other"),
    [
        (1, 2),
        ("a", None),
        (datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)),
        (PAGE, HtmlResponse(URL + "other")),
        (ROWS[0], ROWS[1]),
        (int, str),
        (module_function, make),
    ],
)
def test_immutable_values_tell_requests_apart(
    spider: Methods,
    values: CarriedValues,
    way: Callable[[Methods, Any], dict[str, Any]],
    value: object,
    other: object,
) -> None:
    one, again, two = (
        values.of(Request(URL, **way(spider, each)), NOTHING)
        for each in (value, value, other)
    )
    assert one is not None
    assert again is not None
    assert two is not None
    assert one.digest == again.digest != two.digest


class Mutable:
    """An object of the spider's."""


def with_attribute(spider: Methods) -> Callable[..., Any]:
    callback = spider.closure(1)
    callback.found = []  # type: ignore[attr-defined]
    return callback


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        set(),
        ROWS,
        (1, []),
        Mutable(),
        Mutable().__init__,  # type: ignore[misc]
        io.BytesIO(),
        iter([1]),
        make(1),
        TextResponse(URL, request=Request(URL, meta={"found": []})),
        TextResponse(URL, request=Request(URL, cb_kwargs={"found": []})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_request_with_a_mutable_value_counts_with_its_page(
    spider: Methods,
    values: CarriedValues,
    way: Callable[[Methods, Any], dict[str, Any]],
    value: object,
) -> None:
    assert values.of(Request(URL, **way(spider, value)), NOTHING) is None


def test_functions_that_share_variables_count_with_their_page(
    spider: Methods, values: CarriedValues
) -> None:
    functions = [spider.counted(), spider.unset(), with_attribute(spider)]
    deep: Any = spider.parse
    for _ in range(MOST_VALUES):
        deep = partial(deep, 1)
        deep.keywords["x"] = spider.closure(1)
    for function in (*functions, deep):
        assert values.of(Request(URL, function), NOTHING) is None


@pytest.mark.parametrize("more", [0, 1])
def test_a_request_with_very_many_values_counts_with_its_page(
    values: CarriedValues, more: int
) -> None:
    count = MOST_VALUES - 2 + more  # besides callback and errback
    request = Request(URL, meta=dict.fromkeys(map(str, range(count))))
    assert (values.of(request, NOTHING) is None) == bool(more)


def test_a_copied_value_of_a_middleware_tells_it_from_no_other_request(
    values: CarriedValues,
) -> None:
    """Unless it can change: then the request counts with its page."""
    digests = set()
    for session in ("first", "second"):
        page = Request(URL, meta={"given": 1})
        added = MiddlewareValues(page)
        page.meta["session"] = session
        added.look(page)
        carried = values.of(Request(URL, meta=page.meta), added)
        assert carried is not None
        digests.add(carried.digest)
    assert len(digests) == 1
    page.meta["session"] = []
    added.look(page)
    assert values.of(Request(URL, meta=page.meta), added) is None


class OwnPage(TextResponse):
    """A response that takes attributes."""

    found: object
    _cached: object


def test_a_response_with_an_attribute_of_the_spider_counts_with_its_page(
    spider: Methods, values: CarriedValues
) -> None:
    page = OwnPage(URL)
    page._cached = []  # as Scrapy does
    assert values.of(Request(URL, spider.closure(page)), NOTHING) is not None
    page.found = []
    assert values.of(Request(URL, spider.closure(page)), NOTHING) is None


@pytest.mark.parametrize("value", [lambda page: page, lambda page: page.selector])
@pytest.mark.parametrize(
    "change",
    [
        lambda page: page.meta.update(found=1),
        lambda page: page.cb_kwargs.update(found=1),
        lambda page: page.headers.appendlist("Found", "1"),
        lambda page: page.flags.append("found"),
    ],
)
def test_a_response_that_changes_is_noticed(
    spider: Methods,
    values: CarriedValues,
    change: Callable[[TextResponse], object],
    value: Callable[[TextResponse], object],
) -> None:
    def carried(response: TextResponse) -> Carried | None:
        return values.of(Request(URL, spider.closure(value(response))), NOTHING)

    page = TextResponse(URL, request=Request(URL, meta={"left": 2}))
    page.meta["depth"] = 1
    one = carried(page)
    page.meta["depth"] = 2  # by Scrapy
    two = carried(page)
    assert one is not None
    assert two is not None
    assert values.are_unchanged(one)
    page.meta["left"] -= 1
    assert not values.are_unchanged(one)
    page.meta["left"] += 1
    # Another callback may have relied on it meanwhile.
    assert not values.are_unchanged(two)
    assert carried(page) is None
    page = TextResponse(URL, request=Request(URL))
    other = carried(page)
    assert other is not None
    assert values.are_unchanged(other)
    change(page)
    assert not values.are_unchanged(other)


@on_both_engines
@pytest.mark.usefixtures("feed")
def test_a_tree_ends_although_it_is_killed_again_and_again(crawl: Crawl) -> None:
    """Pages that are done count, and do not come again."""
    crawl.starts = ("/0",)
    done: set[int] = set()
    for _ in range(MOST_RUNS - 1):
        done = killed_when_all_counts(crawl, done)
    run = crawl.run(Closures)
    assert run.finish_reason == "finished"
    assert not {int(path[1:]) for path in run.requested} & done
    found = Counter(item["page"] for item in crawl.items())
    assert found == Counter(range(SIZE))


def killed_when_all_counts(crawl: Crawl, before: set[int]) -> set[int]:
    """Kill a run after so many answers, once all that is done is in the output.

    It may have finished. Return the pages that are done.
    """
    crawl.site.hold_after(EVERY)
    process = crawl.start(Closures)

    def done() -> set[int]:
        scraped = {*map(int, re.findall(r"Scraped from <200 .*/(\d+)>", process.log))}
        found = {*before}
        for page in reversed(range(SIZE)):
            below = {2 * page + 1, 2 * page + 2} & {*range(SIZE)}
            if page in scraped and below <= found:
                found.add(page)
        return found if len(scraped) == EVERY else set()

    def all_counts() -> bool:
        known = done()
        return known > before and known <= {item["page"] for item in crawl.items()}

    process.until(lambda: not process.alive or all_counts())
    process.kill()
    crawl.site.release()
    return done() or before


@on_both_engines
@pytest.mark.parametrize("spider", [TwoWays, MeetsAtStart, MeetsByHand])
@pytest.mark.usefixtures("feed")
def test_a_page_has_one_name_whichever_request_leads_to_it(
    crawl: Crawl, spider: type[Spider]
) -> None:
    """A request in memory has yielded its child; after a kill, a stored one does."""
    killed_with_a_child(crawl)
    crawl.site.hold("/closure", "/memory")
    check_child(crawl, crawl.start(spider))


@on_both_engines
@pytest.mark.parametrize("running", [True, False])
@pytest.mark.usefixtures("feed")
def test_a_page_that_is_added_by_hand_has_the_name_that_it_had_in_memory(
    crawl: Crawl, *, running: bool
) -> None:
    killed_with_a_child(crawl)
    crawl.site.hold("/closure", "/method", "/memory")

    def add() -> None:
        page = f"{crawl.site.base}/page"
        crawl.bloomdupe("add", crawl.engine.job, page, "--callback", "meet")

    if not running:
        add()
    process = crawl.start(TwoWays)
    if running:
        process.until_requested("/method")
        add()
    check_child(crawl, process)


def killed_with_a_child(crawl: Crawl) -> None:
    crawl.starts = ("/closure", "/method")
    crawl.site.hold("/method", "/memory")
    process = crawl.start(TwoWays)
    process.until(lambda: crawl.site.was_requested("/child") and crawl.items())
    process.kill()


def check_child(crawl: Crawl, process: Process) -> None:
    process.until(lambda: crawl.site.count["/memory"] == 2)
    crawl.site.release()
    process.finish()
    assert Counter(item["page"] for item in crawl.items()) == {"child": 1, "memory": 1}
    assert crawl.site.count["/child"] == 1


@on_both_engines
@pytest.mark.usefixtures("feed")
def test_a_request_in_memory_that_counts_later_is_not_replaced(crawl: Crawl) -> None:
    """Its page comes again after a kill, and it yields the same again."""
    crawl.site.hold("/memory")
    process = crawl.start(OnceMore)
    process.until(lambda: crawl.site.count["/page"] == 2 and crawl.items())
    process.kill()
    crawl.site.release()
    crawl.finish(OnceMore)
    assert Counter(item["page"] for item in crawl.items()) == {"page": 1, "memory": 1}


@on_both_engines
@pytest.mark.usefixtures("feed")
def test_a_retry_of_a_request_in_memory_yields_further_children(crawl: Crawl) -> None:
    crawl.finish(Retries)
    assert [item["page"] for item in crawl.items()] == ["child", "child"]


@on_both_engines
@pytest.mark.usefixtures("feed")
def test_a_page_that_is_replaced_waits_for_its_requests_in_memory(crawl: Crawl) -> None:
    crawl.finish(AgainBeside)
    assert {item["page"] for item in crawl.items()} == {"again", "memory"}


@on_both_engines
@pytest.mark.usefixtures("feed")
def test_requests_in_memory_need_no_page_that_has_yielded_them(crawl: Crawl) -> None:
    crawl.finish(ByHand)
    assert sorted(item["page"] for item in crawl.items()) == ["child", "memory"]


@on_both_engines
@pytest.mark.parametrize(
    ("spider", "mended"),
    [(Stops, StopsNoMore), (StopsWithObject, StopsNoMoreWithObject)],
)
@pytest.mark.usefixtures("feed")
def test_items_before_the_end_come_once_whichever_page_leads_to_them(
    crawl: Crawl, spider: type[Spider], mended: type[Spider]
) -> None:
    crawl.starts = ("/", "/page")
    crawl.run(spider)
    crawl.finish(mended)
    items = Counter(item["page"] for item in crawl.items())
    assert items == {"first": 1, "second": 1}  # those in memory come in any order
