"""Stats count as Scrapy's do, and are found as plain attributes."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.statscollectors import DummyStatsCollector, MemoryStatsCollector
from scrapy.utils.misc import load_object

from bloomdupe import Addon
from bloomdupe.inside_scrapy.faster import Stats

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("set_value", ("a", 1)),
    ("inc_value", ("a",)),
    ("inc_value", ("b", 2, 3)),
    ("get_value", ("a",)),
    ("get_value", ("c", 5)),
    ("open_spider", ()),
]


def crawler() -> Crawler:
    return Crawler(Spider, Settings({"STATS_DUMP": False}))


def answer(method: Any, *arguments: Any, **given: Any) -> Any:
    """Call a method; some refuse to be called without a spider."""
    try:
        return method(*arguments, **given)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize(
    "given", [{}, {"spider": Spider("site")}], ids=["alone", "spider"]
)
def test_each_method_does_and_warns_of_the_same(given: dict[str, Any]) -> None:
    found = []
    for kind in (MemoryStatsCollector, Stats):
        stats = kind(crawler())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answers = [
                (answer(getattr(stats, name), *more, **given), dict(stats.get_stats()))
                for name, more in CALLS
            ]
        found.append((answers, kind.__str__, [str(each.message) for each in caught]))
    assert found[0] == found[1]


def test_a_method_of_a_subclass_is_called() -> None:
    class Doubled(Stats):
        def inc_value(self, key: str, count: int = 1, *more: Any, **given: Any) -> None:
            super().inc_value(key, 2 * count, *more, **given)

    stats = Doubled(crawler())
    stats.inc_value("a")
    assert stats.get_value("a") == 2


@pytest.mark.parametrize("given", [MemoryStatsCollector, DummyStatsCollector])
def test_the_add_on_replaces_only_scrapys(given: type) -> None:
    settings = Settings({"STATS_CLASS": given})
    Addon(Crawler(Spider)).update_settings(settings)
    used = load_object(settings["STATS_CLASS"])
    assert used is (Stats if given is MemoryStatsCollector else given)
