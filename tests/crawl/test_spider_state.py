"""spider.state: written when it has changed, and only then."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scrapy.crawler import Crawler

from bloomdupe.crawl.state.spider_state import STATE, SpiderState
from bloomdupe.requests.serializer import Serializer


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
def serializer(spider: Any) -> Serializer:
    return Serializer(spider)


@pytest.fixture
def kept(spider: Any, serializer: Serializer) -> SpiderState:
    crawler = cast("Crawler", SimpleNamespace(spider=spider))
    return SpiderState(crawler, serializer)


def test_unchanged_values_are_written_once(kept: SpiderState) -> None:
    for _ in range(3):
        part = kept.prepare()
        part.done()
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
    kept: SpiderState, serializer: Serializer, spider: Any, change: Callable[..., Any]
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
