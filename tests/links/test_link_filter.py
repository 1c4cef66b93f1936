"""The link filter in real crawls drops exactly the links that the scheduler would."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from spiders.links import (
    Asynchronous,
    ByRules,
    Follow,
    Headers,
    Kinds,
    Offsite,
    Unstorable,
)
from spiders.poet import PoetSpider
from support.crawl import Crawl
from support.site import Site

from bloomdupe import Addon, LinkFilter

BRANCHES, LEVELS = 2, 3
SCRAPYS_SCHEDULER = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}
HERE = "spiders.links"
LINK_FILTERS = (
    "bloomdupe.LinkFilter",
    f"{HERE}.Reckless",
)
# One page at a time, and of it one link, on each version of Scrapy.
IN_TURN = {
    "CONCURRENT_ITEMS": 1,
    "CONCURRENT_REQUESTS": 1,
    "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 0,
}
POET = "scrapy_poet.Addon"
POETS_BASE = "SCRAPY_POET_REQUEST_FINGERPRINTER_BASE_CLASS"
CASES: dict[str, tuple[type[Spider], dict[str, Any]]] = {
    "follow": (Follow, {}),
    "asynchronous": (Asynchronous, {}),
    "by_rules": (ByRules, {}),
    "kinds": (Kinds, {}),
    "unstorable": (Unstorable, {"JOBDIR": "job"}),
    "poet": (PoetSpider, {"ADDONS": {"bloomdupe.Addon": 1, POET: 2}}),
    "says_so": (
        Kinds,
        {
            "REQUEST_FINGERPRINTER_CLASS": f"{HERE}.LowerCaseFingerprinter",
            **IN_TURN,
        },
    ),
    "poet_on_other": (
        PoetSpider,
        {
            "ADDONS": {"bloomdupe.Addon": 1, POET: 2},
            POETS_BASE: f"{HERE}.LowerCaseFingerprinter",
        },
    ),
    "exact": (Follow, {"BLOOMDUPE_EXACT": True}),
    "url_length": (Follow, {"URLLENGTH_LIMIT": "fits"}),
    "depth": (Follow, {"DEPTH_LIMIT": 1}),
    "offsite": (Offsite, {}),
    "lower_order": (
        Follow,
        {"SPIDER_MIDDLEWARES": {f"{HERE}.Rewrite": 543, "bloomdupe.LinkFilter": 500}},
    ),
    # Where it must step aside:
    "headers": (
        Headers,
        {"REQUEST_FINGERPRINTER_CLASS": f"{HERE}.LanguageFingerprinter"},
    ),
    "rewrite": (Follow, {"SPIDER_MIDDLEWARES": {f"{HERE}.Rewrite": 543}}),
    "listener": (Follow, {"EXTENSIONS": {f"{HERE}.Listener": 0}}),
    "debug": (Follow, {"DUPEFILTER_DEBUG": True}),
    "depths": (Follow, {"DEPTH_STATS_VERBOSE": True}),
    "scrapys_filter": (
        Follow,
        {"DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter", **SCRAPYS_SCHEDULER},
    ),
    # Controls:
    "control_rewrite": (
        Follow,
        {
            "SPIDER_MIDDLEWARES": {
                f"{HERE}.Rewrite": 543,
                f"{HERE}.Reckless": 1e4,
                "bloomdupe.LinkFilter": None,
            }
        },
    ),
}


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


@dataclass
class Result:
    requests: Counter[str]
    stats: dict[str, Any]
    log: list[str]
    """Lines about duplicates."""


class Results(dict[str, Result]):
    """The crawls of a case, with the link filter and without it, when asked for.

    Their names are that of the case and ``-on`` or ``-off``.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, name: str) -> Result:
        case, _, way = name.rpartition("-")
        spider, options = CASES[case]
        settings = {"JOBDIR": None, **options}
        if way == "off":
            middlewares = settings.get("SPIDER_MIDDLEWARES", {})
            off = dict.fromkeys(LINK_FILTERS)
            settings["SPIDER_MIDDLEWARES"] = {**middlewares, **off}
        with (
            Site(lambda visit: page(Path(visit.path).stem)) as site,
            Crawl(self._folder / name, site, COOKIES_ENABLED=False) as crawl,
        ):
            if "URLLENGTH_LIMIT" in settings:
                settings["URLLENGTH_LIMIT"] = len(f"{site.base}/000.html")
            run = crawl.run(spider, starts=["/0.html"], **settings)
        requests = Counter(
            f"{visit.method} {visit.path} {visit.body}"
            f" {visit.headers.get('X-Language', '')}"
            for visit in run.visits
        )
        said = re.findall(r": (Filtered dup.*|Duplicate links.*)", run.log)
        found = self[name] = Result(requests, run.stats, said)
        return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return the crawls, which the tests of a case share."""
    return Results(tmp_path_factory.mktemp("crawls"))


ASIDE = {
    "headers": "the REQUEST_FINGERPRINTER_CLASS may read values that a request",
    "rewrite": "spiders.links.Rewrite handles what spiders yield after",
    "listener": "listens to the signal request_scheduled",
    "debug": "DUPEFILTER_DEBUG is on",
    "depths": "DEPTH_STATS_VERBOSE is on",
    "scrapys_filter": "SCHEDULER or DUPEFILTER_CLASS is not bloomdupe's own",
}
ACTIVE = [name for name in CASES if name not in {*ASIDE, "offsite", "control_rewrite"}]
IN_CI = frozenset({"asynchronous", "depth", "exact", "poet_on_other"})
"""Cases that show the same behaviour once more."""
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


def each(*names: str, in_ci: frozenset[str] = IN_CI) -> pytest.MarkDecorator:
    """Let a test have these cases, of which some are left to CI."""
    slow = pytest.mark.slow
    cases = [
        pytest.param(name, marks=slow) if name in in_ci else name for name in names
    ]
    return pytest.mark.parametrize("case", cases, scope="module")


def counts(result: Result) -> dict[str, Any]:
    return {name: result.stats.get(name) for name in COUNTED}


@each(*ACTIVE, *ASIDE, "offsite", in_ci=IN_CI | {"debug", "depths", "scrapys_filter"})
def test_same_requests_and_same_counts_as_without_it(
    results: Results, case: str
) -> None:
    on, off = results[f"{case}-on"], results[f"{case}-off"]
    assert on.requests == off.requests
    expected = counts(off)
    if case == "by_rules":
        # Links left out by new_links() were never requests of any depth.
        assert on.stats["request_depth_max"] <= expected["request_depth_max"]
        expected["request_depth_max"] = on.stats["request_depth_max"]
    assert counts(on) == expected
    assert off.stats.get("bloomdupe/dropped_early") is None


@each(*ACTIVE)
def test_most_duplicates_are_dropped_early(results: Results, case: str) -> None:
    stats = results[f"{case}-on"].stats
    early, all_ = stats["bloomdupe/dropped_early"], stats["dupefilter/filtered"]
    assert all_ / 2 < early <= all_, (early, all_)


@each(*ASIDE)
def test_it_steps_aside_and_says_why(results: Results, case: str) -> None:
    on = results[f"{case}-on"]
    assert on.stats.get("bloomdupe/dropped_early") is None
    (said,) = (text for text in on.log if text.startswith("Duplicate links are left"))
    assert ASIDE[case] in said


def test_offsite_links_count_as_offsite(results: Results) -> None:
    """The start page is seen, but a link back to it is offsite first of all."""
    stats = results["offsite-on"].stats
    assert stats["offsite/filtered"] > 0
    assert "dupefilter/filtered" not in stats


def test_control_an_unsound_link_filter_loses_pages(results: Results) -> None:
    on, off = (results[f"control_rewrite-{way}"] for way in ("on", "off"))
    lost = off.requests - on.requests
    assert lost
    assert on.requests.total() < off.requests.total()


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
