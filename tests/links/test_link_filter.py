"""The link filter in real crawls drops exactly the links that the scheduler would."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from spiders.follow import Follow, Unstorable
from spiders.links import ByRules, Kinds, Offsite
from spiders.poet import PoetSpider
from support.crawl import Crawl, Run
from support.site import Pages

from bloomdupe import Addon, LinkFilter

STARTS = ["/0.html"]
SETTINGS = {"COOKIES_ENABLED": False}
BRANCHES, LEVELS = 2, 3
HERE = "spiders.links"
LINK_FILTERS = ("bloomdupe.LinkFilter", f"{HERE}.Reckless")
# One page at a time, and of it one link, on each version of Scrapy.
IN_TURN: dict[str, Any] = {
    "CONCURRENT_ITEMS": 1,
    "CONCURRENT_REQUESTS": 1,
    "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 0,
}
POETS: dict[str, Any] = {"ADDONS": {"bloomdupe.Addon": 1, "scrapy_poet.Addon": 2}}
LOWER_CASE = f"{HERE}.LowerCaseFingerprinter"
REWRITE = {f"{HERE}.Rewrite": 543}
SCRAPYS: dict[str, Any] = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
}
COUNTED = (
    "dupefilter/filtered",
    "scheduler/enqueued",
    "scheduler/unserializable",
    "request_depth_max",
    "urllength/request_ignored_count",
    "depth/request_ignored_count",
    "offsite/filtered",
    "heard",
)


def case(
    name: str,
    spider: type[Spider],
    aside: str = "",
    *,
    slow: bool = False,
    **settings: Any,
) -> Any:
    """Return a spider, its settings, and why the filter must step aside, if it must.

    ``slow``: it shows the same behaviour once more.
    """
    marks = [pytest.mark.slow] if slow else []
    return pytest.param(spider, settings, aside, id=name, marks=marks)


CASES = [
    case("follow", Follow),
    case("by rules", ByRules),
    case("kinds", Kinds),
    case("unstorable", Unstorable, JOBDIR="job"),
    case("poet", PoetSpider, **POETS),
    case("says so", Kinds, REQUEST_FINGERPRINTER_CLASS=LOWER_CASE, **IN_TURN),
    case(
        "poet on other",
        PoetSpider,
        slow=True,
        SCRAPY_POET_REQUEST_FINGERPRINTER_BASE_CLASS=LOWER_CASE,
        **POETS,
    ),
    case("URL length", Follow, URLLENGTH_LIMIT="fits"),
    case("depth", Follow, slow=True, DEPTH_LIMIT=1),
    # The start page is seen, but a link back to it is offsite first of all.
    case("offsite", Offsite),
    case(
        "lower order",
        Follow,
        SPIDER_MIDDLEWARES={**REWRITE, "bloomdupe.LinkFilter": 500},
    ),
    case(
        "fingerprinter",
        Follow,
        "the REQUEST_FINGERPRINTER_CLASS may read values that a request",
        REQUEST_FINGERPRINTER_CLASS=f"{HERE}.PathFingerprinter",
    ),
    case(
        "rewrite",
        Follow,
        "spiders.links.Rewrite handles what spiders yield after",
        SPIDER_MIDDLEWARES=REWRITE,
    ),
    case(
        "listener",
        Follow,
        "listens to the signal request_scheduled",
        slow=True,
        EXTENSIONS={f"{HERE}.Listener": 0},
    ),
    case("debug", Follow, "DUPEFILTER_DEBUG is on", slow=True, DUPEFILTER_DEBUG=True),
    case(
        "depths",
        Follow,
        "DEPTH_STATS_VERBOSE is on",
        slow=True,
        DEPTH_STATS_VERBOSE=True,
    ),
    case(
        "Scrapy's filter",
        Follow,
        "SCHEDULER or DUPEFILTER_CLASS is not bloomdupe's own",
        **SCRAPYS,
    ),
]


def page(name: str) -> str:
    """A page of a tree: links to its children, to those before it, and to itself.

    The depth of a page is the length of its name, in any order of the crawl.
    """
    children = [f"{name}{branch}" for branch in range(BRANCHES)]
    if len(name) == LEVELS:
        children = []
    above = [name[:length] for length in range(1, len(name) + 1)]
    links = [f"{child}.html" for child in children]
    links += [f"{link}.html" for link in above]
    links += [f"{link}.html#{'long ' * 4}" for link in children]
    links += [f"./{link}.html" for link in above for _ in range(4)]
    return "".join(f"<a href='{link}'>x</a>" for link in links)


@pytest.fixture
def pages() -> Pages:
    return lambda visit: page(Path(visit.path).stem)


def crawled(
    crawl: Crawl, spider: type[Spider], settings: dict[str, Any], *, on: bool
) -> Run:
    """Crawl with the link filter, or without it."""
    settings = dict(settings)
    if "JOBDIR" in settings:
        settings["JOBDIR"] += str(on)
    if "URLLENGTH_LIMIT" in settings:
        settings["URLLENGTH_LIMIT"] = len(f"{crawl.site.base}/000.html")
    if not on:
        middlewares = settings.get("SPIDER_MIDDLEWARES", {})
        off = dict.fromkeys(LINK_FILTERS)
        settings["SPIDER_MIDDLEWARES"] = {**middlewares, **off}
    return crawl.run(spider, **{"JOBDIR": None, **settings})


def requests(run: Run) -> Counter[str]:
    return Counter(f"{visit.method} {visit.path} {visit.body}" for visit in run.visits)


def counts(run: Run) -> dict[str, Any]:
    return {name: run.stats.get(name) for name in COUNTED}


@pytest.mark.parametrize(("spider", "settings", "aside"), CASES)
def test_same_requests_and_same_counts_as_without_it(
    crawl: Crawl, spider: type[Spider], settings: dict[str, Any], aside: str
) -> None:
    """Most duplicates are dropped early; or it steps aside, and says why."""
    on, off = (crawled(crawl, spider, settings, on=on) for on in (True, False))
    assert requests(on) == requests(off)
    expected, found = counts(off), counts(on)
    assert found == expected
    assert "bloomdupe/dropped_early" not in off.stats
    early = on.stats.get("bloomdupe/dropped_early")
    said = re.findall(r": Duplicate links are left(.*)", on.log)
    if aside:
        assert early is None
        (words,) = said
        assert aside in words
    elif spider is not Offsite:
        assert said == []
        assert expected["dupefilter/filtered"] / 2 < early
        assert early <= expected["dupefilter/filtered"]


def test_control_an_unsound_link_filter_loses_pages(crawl: Crawl) -> None:
    reckless = {f"{HERE}.Reckless": 1e4, "bloomdupe.LinkFilter": None}
    settings = {"SPIDER_MIDDLEWARES": {**REWRITE, **reckless}}
    on, off = (
        requests(crawled(crawl, Follow, settings, on=on)) for on in (True, False)
    )
    assert off - on
    assert on.total() < off.total()


def test_the_add_on_respects_the_users_own_order() -> None:
    for key in (
        "bloomdupe.LinkFilter",
        "bloomdupe.links.link_filter.LinkFilter",
        LinkFilter,
    ):
        for order in (7, None):
            settings = Settings({"SPIDER_MIDDLEWARES": {key: order}})
            Addon(Crawler(Spider)).update_settings(settings)
            assert settings.getdict("SPIDER_MIDDLEWARES") == {key: order}
