"""spider.state: packed when it has changed, and only then."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scrapy.crawler import Crawler

from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.crawl.requests.values import pack
from bloomdupe.crawl.state.spider_state import (
    ATTRIBUTES,
    STATE,
    SpiderAttributes,
    SpiderState,
)


class Counting(Serializer):
    packed = 0

    def dump_value(self, value: object) -> bytes:
        self.packed += 1
        return super().dump_value(value)


@pytest.fixture
def spider() -> Any:
    state = {
        "ids": {"a", "b"}, "n": 1, "deep": [{"x": [1, 2]}],
        "minus": -1, "most": [-1], "keys": {-1: 1}, "set": {-1},
        "counts": Counter(a=1), "order": OrderedDict(a=1, b=2),
        "groups": defaultdict(list, {"a": [1]}),
    }  # fmt: skip
    return SimpleNamespace(state=state)


@pytest.fixture
def serializer(spider: Any) -> Counting:
    return Counting(spider)


@pytest.fixture
def kept(spider: Any, serializer: Counting) -> SpiderState:
    crawler = cast("Crawler", SimpleNamespace(spider=spider))
    return SpiderState(crawler, serializer)


def test_unchanged_values_are_packed_once(
    kept: SpiderState, serializer: Counting
) -> None:
    for _ in range(3):
        part = kept.prepare()
        part.done()
    assert serializer.packed == 1
    assert part.blobs == {}
    assert not kept.changed


CHANGES: list[Callable[[dict[str, Any]], Any]] = [
    lambda state: state["ids"].add("c"),
    lambda state: (state["ids"].remove("a"), state["ids"].add("c")),
    lambda state: state.update(n=2),
    lambda state: state.update(n=True),
    lambda state: state.update(n=1.0),
    lambda state: state.update(minus=-2),
    lambda state: state.update(most=[-2]),
    lambda state: state.update(keys={-2: 1}),
    lambda state: state.update(set={-2}),
    lambda state: state["deep"][0]["x"].append(3),
    lambda state: state["deep"][0]["x"].reverse(),
    lambda state: state.update(deep=({"x": [1, 2]},)),
    lambda state: state.pop("ids"),
    lambda state: state.update(ids=["a", "b"]),
    lambda state: state["counts"].update("a"),
    lambda state: state.update(counts={"a": 1}),
    lambda state: state["order"].move_to_end("a"),
    lambda state: state["groups"]["a"].append(2),
    lambda state: state.update(groups=defaultdict(None, {"a": [1]})),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(
    kept: SpiderState, serializer: Counting, spider: Any, change: Callable[..., Any]
) -> None:
    kept.prepare().done()
    change(spider.state)
    assert kept.changed
    part = kept.prepare()
    assert serializer.load_value(part.blobs[STATE]) == spider.state
    part.done()
    assert not kept.changed


def test_a_checkpoint_that_fails_has_not_stored_it(kept: SpiderState) -> None:
    kept.prepare()
    assert kept.changed
    assert STATE in kept.prepare().blobs


def test_a_state_that_is_gone_is_removed(kept: SpiderState, spider: Any) -> None:
    kept.prepare().done()
    spider.state = None
    assert kept.changed
    assert kept.prepare().gone == (STATE,)


class Plain:
    """A spider with attributes of every kind."""

    def __init__(self, **values: object) -> None:
        self.name = "s"
        self.pages: list[int] = []
        self.opened = object()
        vars(self).update(values)


def resumed(stored: SpiderAttributes, again: Plain) -> Plain:
    """Store the attributes, and give them to the spider of the next run."""
    blobs = stored.prepare().blobs
    SpiderAttributes(cast("Any", again), blobs.get(ATTRIBUTES))
    return again


def test_attributes_that_callbacks_have_changed_come_again() -> None:
    spider = Plain()
    kept = SpiderAttributes(cast("Any", spider), None)
    vars(spider).update(ticket="t", name="other", lock=object())
    spider.pages.append(1)
    again = resumed(kept, Plain())
    assert vars(again).keys() == {"name", "pages", "opened", "ticket"}
    assert (vars(again)["ticket"], again.pages, again.name) == ("t", [1], "s")


def test_a_store_does_not_decide_on_names_of_files_or_on_scrapys_attributes() -> None:
    names = ("crawler", "settings", "category", "ticket")
    planted = pack({name: (b"", pack(["../../keys"])) for name in names})
    again = Plain()
    SpiderAttributes(cast("Any", again), planted, places={"category"})
    assert vars(again).keys() & {*names} == {"ticket"}


def test_another_value_at_the_opening_wins() -> None:
    spider = Plain(site="a")
    kept = SpiderAttributes(cast("Any", spider), None)
    vars(spider).update(site="b", ticket="t")
    again = vars(resumed(kept, Plain(site="c")))
    assert (again["site"], again["ticket"]) == ("c", "t")


def test_attributes_are_written_when_they_have_changed() -> None:
    spider = Plain()
    kept = SpiderAttributes(cast("Any", spider), None)
    assert kept.prepare().blobs == {}
    spider.pages.append(1)
    part = kept.prepare()
    part.done()
    assert part.blobs
    assert kept.prepare().blobs == {}
    spider.pages.clear()
    assert kept.prepare().gone == (ATTRIBUTES,)


def test_an_attribute_that_is_too_large_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spider = Plain()
    kept = SpiderAttributes(cast("Any", spider), None)
    vars(spider).update(big="x" * 1_000_000, ticket="t")
    again = resumed(kept, Plain())
    kept.prepare()
    assert "ticket" in vars(again)
    assert "big" not in vars(again)
    assert caplog.text.count("attribute big of the spider is too large") == 1


def test_a_new_round_begins_without_the_attributes_of_the_last() -> None:
    spider = Plain()
    kept = SpiderAttributes(cast("Any", spider), None)
    vars(spider).update(ticket="t")
    stored = kept.prepare().blobs[ATTRIBUTES]
    again = Plain()
    kept = SpiderAttributes(cast("Any", again), stored, resumed=False)
    assert "ticket" not in vars(again)
    assert kept.prepare().gone == (ATTRIBUTES,)
