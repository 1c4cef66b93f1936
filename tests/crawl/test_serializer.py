"""Requests as bytes, and back: callbacks, values, subclasses, and damage."""

from __future__ import annotations

import datetime
import decimal
import importlib
import io
import re
import sys
import types
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import make_dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from zoneinfo import TZPATH, ZoneInfo

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request, Selector, Spider
from scrapy.http import JsonRequest, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.spiders import CrawlSpider

from bloomdupe.errors import UnserializableError
from bloomdupe.requests import serializer
from bloomdupe.requests.layout import changed, url_of
from bloomdupe.requests.serializer import Serializer
from bloomdupe.requests.values import Writer, pack, pack_item, unpack


class Example(CrawlSpider):
    name = "example"

    def __init__(self) -> None:
        super().__init__()
        self.asked = False
        self.taken = types.MethodType(Example.parse_it, self)
        self.made = types.MethodType(lambda *_: None, self)
        self.foreign = Spider("other").parse

    def parse_it(self, response: Any, *_: Any, **__: Any) -> None: ...

    def __hidden(self, response: Any) -> None: ...

    def hidden(self) -> Any:
        return self.__hidden

    def _parse_it(self, response: Any) -> None: ...

    async def parse_async(self, response: Any) -> None: ...

    def __call__(self, response: Any) -> None: ...

    def close(self, *_: Any) -> None:  # type: ignore[override]
        pytest.fail("code was run")

    def log(self, *_: Any, **__: Any) -> None:
        pytest.fail("code was run")

    @property
    def a_property(self) -> Any:
        pytest.fail("code was run")

    @classmethod
    def of_the_class(cls, response: Any) -> None: ...

    @staticmethod
    def static(response: Any) -> None: ...

    class Inner:
        pass


class Text(str):
    __slots__ = ("parent",)


class Pair(NamedTuple):
    one: Any
    other: Any


SPIDER = Example()
SAFE = Serializer(SPIDER)


def stored(**fields: object) -> bytes:
    """Return a stored request with these fields, which it need not be able to have."""
    return changed(msgpack.packb(["\4a.example/"]), **fields)


def back(request: Request) -> Request:
    return SAFE.load(SAFE.dump(request))


@pytest.mark.parametrize(
    "request_",
    [
        Request("http://a.example/"),
        Request(
            "http://a.example/?q=%20",
            callback=SPIDER.parse_it,
            errback=SPIDER.hidden(),
            method="PUT",
            headers={"A": ["1", "2"], "Referer": "http://a.example/b"},
            body=b"\xff\x00",
            cookies=[{"name": "n", "value": "v", "path": "/"}],
            meta={"depth": 3, "x": {"y": [1, None, 2.5, True]}},
            encoding="latin-1",
            priority=-(10**12),
            dont_filter=True,
            flags=["cached"],
            cb_kwargs={"a": (1, 2)},
        ),
        Request("http://a.example/", callback=NO_CALLBACK),
        Request(
            "http://a.example/",
            callback=partial(SPIDER.parse_it, 1, "two", part=(3, None)),
            errback=partial(partial(NO_CALLBACK), frozenset("ab")),
        ),
        JsonRequest("http://a.example/", data={"a": 1}, dumps_kwargs={"indent": 2}),
        XmlRpcRequest("http://a.example/", params=(1,), methodname="m"),
        Request("data:,hello"),
        Request("http://a.example/", headers={"Referer": ["a", "b"]}),
        Request("http://a.example/", headers={"Referer": "x", "Later": "y"}),
        Request(
            "http://\xe4.example/\u20ac",
            headers={"Referer": "http://\xe4.example/".encode("latin-1")},
            meta={"verbatim_url": True, "depth": True},
        ),
        Request("http://a.example/", meta={"depth": 0, "x": 1}),
        Request("https://a.example/", headers={"Referer": "https://www.a.example/"}),
        *(
            Request(f"{head}a://b", meta={"verbatim_url": True})
            for head in (
                "\0",
                "\1",
                "\4",
                "\5",
                "http://",
                "http://www.",
                "https://www",
            )
        ),
    ],
)
def test_requests_come_back_as_they_were(request_: Request) -> None:
    restored = back(request_)
    assert type(restored) is type(request_)
    for name in request_.attributes:
        found, given = getattr(restored, name), getattr(request_, name)
        assert taken_apart(found) == taken_apart(given), name


def taken_apart(value: Any) -> Any:
    """Return what a partial consists of; any other value is itself."""
    is_partial = type(value) is partial
    return (value.func, value.args, value.keywords) if is_partial else value


def test_the_url_of_a_payload_can_be_printed() -> None:
    assert url_of(stored(url="a://\n")) == "a://\\n"


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset({1, 2}),
        {(1, 2): "tuple as key", b"bytes": 1},
        datetime.date(2026, 8, 1),
        datetime.datetime(
            2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1), "CET")
        ),
        datetime.timezone(datetime.timedelta(0), "UTC"),
        datetime.timedelta(days=-1, microseconds=5),
        decimal.Decimal("1.10"),
        uuid.UUID(int=7),
        "\ud800",
        float("inf"),
        Counter("abca"),
        OrderedDict(b=1, a=(2,)),
        defaultdict(set, {1: {2}}),
        defaultdict(None, {"x": Counter()}),
        deque(["a", (1, 2)]),
        deque([1, 2, 3], maxlen=2),
    ],
)
def test_values_come_back_unchanged(value: object) -> None:
    restored = back(Request("http://a.example/", cb_kwargs={"v": value}))
    assert restored.cb_kwargs == {"v": value}
    assert type(restored.cb_kwargs["v"]) is type(value)
    assert repr(restored.cb_kwargs["v"]) == repr(value)


@given(st.datetimes(timezones=st.timezones(), allow_imaginary=True) | st.times())
def test_times_come_back_with_zone_and_fold(value: Any) -> None:
    restored = unpack(pack(value))
    assert repr(restored) == repr(value)
    assert restored.utcoffset() == value.utcoffset()
    assert unpack(pack_item([value])) == [value]


def test_an_item_of_a_class_without_a_name_is_kept_as_its_fields() -> None:
    made = make_dataclass("Made", [("path", str), ("more", Any)])
    item = made("a", made("b", [1]))
    expected = {"path": "a", "more": {"path": "b", "more": [1]}}
    assert unpack(pack_item(item)) == expected


@pytest.mark.parametrize(
    "key",
    [
        "os.path/x", "../../etc/passwd", "/etc/localtime", "tzdata.zoneinfo/UTC", "",
        "Europe/", "Europe", "Nowhere/At_All", "A" * 10_000, 7, b"UTC",
    ],
)  # fmt: skip
def test_a_store_names_nothing_but_time_zones(key: object) -> None:
    """Python looks for a zone that it does not find in a package of a similar name."""
    good = msgpack.unpackb(pack(ZoneInfo("Europe/Paris")))
    bad = msgpack.ExtType(good.code, msgpack.packb([key]))
    before = set(sys.modules)
    with pytest.raises(UnserializableError):
        unpack(msgpack.packb(bad))
    assert not {name for name in set(sys.modules) - before if "tzdata" not in name}


VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda values: (
        st.lists(values, max_size=3)
        | st.tuples(values, values)
        | st.dictionaries(st.text() | st.integers(), values, max_size=3)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_any_plain_value_comes_back(value: object) -> None:
    restored = back(Request("http://a.example/", meta={"v": value}))
    assert restored.meta == {"v": value}


def test_texts_of_lxml_become_plain_strings() -> None:
    (text,) = Selector(text="<a>x</a>").root.xpath("//a/text()")
    assert type(text) is not str
    restored = back(Request("http://a.example/", meta={"v": [text], text: text}))
    assert restored.meta == {"v": ["x"], "x": "x"}
    for found in (*restored.meta, restored.meta["x"], *restored.meta["v"]):
        assert type(found) is str


def test_all_texts_of_an_item_become_plain_strings() -> None:
    value = {"a": (Text("x"), {Text("y")})}
    restored = unpack(pack_item(value))
    assert restored == value
    first, (second,) = restored["a"]
    assert (type(first), type(second)) == (str, str)
    with pytest.raises(UnserializableError):
        pack(value)


DERIVED: list[Any] = [
    type(kind.__name__.title(), (kind,), {"__module__": "no.such"})()
    for kind in (str, int, float, bytes, list, dict, set, tuple, Counter)
]
NAMELESS = next(path for path in map(Path, TZPATH) if (path / "UTC").exists()) / "UTC"
ITSELF: list[object] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    "value",
    [
        *DERIVED, {Text("x"): 1},
        object(), open, SPIDER, {"in": [complex(1)]}, defaultdict(lambda: 1), ITSELF,
        memoryview(b"x"), (memoryview(b"x"), 1), bytearray(b"x"),
        datetime.time(tzinfo=ZoneInfo.from_file(io.BytesIO(NAMELESS.read_bytes()))),
    ],
)  # fmt: skip
def test_other_values_are_refused_and_the_way_out_is_named(value: object) -> None:
    with pytest.raises(UnserializableError, match="plain values, dataclasses"):
        SAFE.dump(Request("http://a.example/", meta={"v": value}))


def doubled(value: Any, pair: Callable[[Any], Any], times: int) -> Any:
    for _ in range(times):
        value = pair(value)
    return value


@pytest.mark.parametrize(
    "pair",
    [
        lambda value: {"a": value, "b": value},
        lambda value: [(value, 1), {"a": value}],
        lambda value: Pair(value, value),
    ],
    ids=["dict", "mixed", "object"],
)
def test_values_that_share_values_are_refused_before_they_are_written(
    pair: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written out they would have 2**16 parts."""
    monkeypatch.setattr(serializer, "pack_for_request", Writer(1 << 17).pack)
    request = Request("http://a.example/", meta={"v": doubled("x", pair, 16)})
    with pytest.raises(UnserializableError, match="it has more than 64 MB"):
        SAFE.dump(request)
    few = Request("http://a.example/", meta={"v": doubled("x", pair, 4)})
    assert back(few).meta == few.meta
    few.meta["v"] = ["x" * 10_000] * 20  # each reference counts
    assert SAFE.dump_or_none(few) is None
    few = Request("http://a.example/", method="POST", body=b"x" * (1 << 17))
    assert SAFE.dump_or_none(few) is None


def test_what_a_request_carries_twice_is_one_object_again() -> None:
    """A set is sorted as bytes, so what is in it is written anew."""
    offer, pair = {"price": [1]}, Pair([], 1)
    item = {"offers": ({"a": 1}, offer), "own": deque([pair]), "all": {pair[:0]}}
    meta = {"item": item, "prices": offer["price"], "pairs": [pair, pair.one]}
    given = Request("http://a.example/", meta=meta, cb_kwargs={"offer": offer})
    request = back(given)
    assert (request.meta, request.cb_kwargs) == (given.meta, given.cb_kwargs)
    found, prices = request.meta["item"]["offers"][1], request.meta["prices"]
    assert found is request.cb_kwargs["offer"]
    assert found["price"] is prices
    assert found is not offer
    (own,), (listed, inner) = request.meta["item"]["own"], request.meta["pairs"]
    assert own is listed
    assert own.one is inner
    assert SAFE.dump(request) == SAFE.dump(given)


NO_TIME = msgpack.ExtType(14, msgpack.packb(["now", 7, 0]))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"class_name": "os:system"}, "no class os:system"),
        ({"class_name": "scrapy:Spider"}, "not a subclass of Request"),
        (
            {"class_name": "scrapy:FormRequest", "state": {"_url": "x"}},
            "attributes that are not a subclass",
        ),
        ({"callback": "gone"}, "no method 'gone'"),
        ({"callback": 7}, "no method 7"),
        ({"callback": ["close", [], {}]}, "no method 'close'"),
        ({"callback": ["os.system", ["true"], {}]}, "no method 'os.system'"),
        ({"callback": ["parse_it", [], {"a": []}]}, "no partial is stored with"),
        ({"callback": ["parse_it", [], {}, 1]}, "too many values"),
        ({"url": ""}, "no URL"),
        ({"url": 7}, "no URL"),
        ({"meta": 7}, "."),
        ({"meta": {"v": msgpack.ExtType(19, b"\x91\7")}}, "out of range"),
        ({"meta": {"v": NO_TIME}}, "interpreted as an integer"),
        (b"\x90", "no request"),
        (b"\x81\xa1a\xa1b", "no request"),
        (b"", "."),
        (b"\x91\xc1", "."),
        (b"\x92\xa1", "."),
    ],
)
def test_an_unrestorable_request_names_the_reason(fields: Any, reason: str) -> None:
    payload = fields if isinstance(fields, bytes) else stored(**fields)
    with pytest.raises(UnserializableError, match=reason):
        SAFE.load(payload)
    assert url_of(payload)


def test_no_module_is_imported_because_a_payload_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.py").write_text(
        "import scrapy\n\n\nclass Special(scrapy.Request):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    payload = stored(class_name="planted:Special")
    with pytest.raises(UnserializableError, match="import it where the spider is"):
        SAFE.load(payload)
    assert "planted" not in sys.modules
    lazy: Any = types.ModuleType("planted")  # one that would import more
    lazy.__getattr__ = pytest.fail
    monkeypatch.setitem(sys.modules, "planted", lazy)
    with pytest.raises(UnserializableError, match="no class planted"):
        SAFE.load(payload)
    del sys.modules["planted"]
    special = importlib.import_module("planted").Special
    assert type(SAFE.load(payload)) is special


class Selenium(Request):
    """Keeps something that it does not name, as some packages' requests do."""

    def __init__(self, *args: Any, wait_time: int | None = None, **more: Any) -> None:
        self.wait_time = wait_time
        self._steps: list[Any] = []
        super().__init__(*args, **more)


def test_undeclared_attributes_of_a_subclass_are_kept() -> None:
    request = Selenium("http://a.example/", wait_time=10, meta={"a": 1})
    request._steps.append(("click", 3))
    again = SAFE.load(SAFE.dump(request))
    assert type(again) is Selenium
    assert (again.wait_time, again._steps) == (10, [("click", 3)])
    assert again.to_dict() == request.to_dict()
    request._steps.append(lambda: None)
    with pytest.raises(UnserializableError, match=r"state\['_steps'\]\[1\] has a"):
        SAFE.dump(request)


@pytest.mark.parametrize("name", ["copy", "replace", "to_dict", "__class__"])
def test_a_store_sets_no_attribute_in_the_place_of_code(name: str) -> None:
    def load(extras: dict[str, Any]) -> Request:
        return SAFE.load(stored(class_name=f"{__name__}:Selenium", state=extras))

    with pytest.raises(UnserializableError, match="not a subclass's own"):
        load({"_steps": [1], name: 1})
    assert vars(load({"_steps": [1]}))["_steps"] == [1]
    request = Selenium("http://a.example/")
    vars(request)[name] = 1
    with pytest.raises(UnserializableError, match="not a subclass's own"):
        SAFE.dump(request)


class Changing(Request):
    """Fetches a page by way of another page, and takes other arguments."""

    made: ClassVar[list[Any]] = []

    def __init__(self, product: Any) -> None:
        self.made.append(product)
        super().__init__(f"http://proxy.example/?url={product}", meta={"made": 1})
        self.meta["made"] += 1


class OfItsOwn(Request):
    @property
    def url(self) -> str:
        return super().url + "&token=7"


def test_no_constructor_of_a_subclass_runs_again() -> None:
    restored = back(Changing(7))
    assert Changing.made == [7]
    assert type(restored) is Changing
    assert (restored.url, restored.meta) == ("http://proxy.example/?url=7", {"made": 2})
    with pytest.raises(UnserializableError, match="OfItsOwn has its own url"):
        SAFE.dump(OfItsOwn("http://a.example/?"))


@pytest.mark.parametrize(
    "name", ["parse_it", "_parse_it", "parse_async", "taken", "made", "parse_start_url"]
)
def test_a_method_of_the_spider_is_a_callback(name: str) -> None:
    spider = Example()
    payload = stored(callback=name, errback=name)
    request = Serializer(spider).load(payload)
    assert [request.callback, request.errback] == 2 * [getattr(spider, name)]
    again = Serializer(spider).load(Serializer(spider).dump(request))
    assert again.callback == request.callback


@pytest.mark.parametrize(
    "name",
    [
        "__init__", "__call__", "__class__", "__setattr__", "close", "log", "logger",
        "from_crawler", "start", "handles_request", "foreign", "a_property",
        "of_the_class", "static", "Inner", "asked", "parse_it.__func__",
    ],
)  # fmt: skip
def test_nothing_else_of_the_spider_is_a_callback(name: str) -> None:
    for use in ("callback", "errback"):
        payload = stored(**{use: name})
        with pytest.raises(UnserializableError, match="has no method"):
            Serializer(Example()).load(payload)


def with_attribute(spider: Any) -> Any:
    function: Any = partial(spider.parse_it, 1)
    function.kind = 1
    return function


def hidden(spider: Any) -> Any:
    method, spider._parse_it = spider._parse_it, spider.parse_async
    return method


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda spider: lambda r: spider.parse_it(r),  # noqa: PLW0108 - the point
            "use a method of the spider, and give it values in cb_kwargs",
        ),
        (
            lambda spider: partial(spider.parse_it, []),
            "an argument of type builtins.list: give it",
        ),
        (
            lambda spider: partial(spider.parse_it, spider.parse_it),
            "an argument of type builtins.method",
        ),
        (with_attribute, "is not a method of"),
        (hidden, "is not a method of"),
        (lambda _: SPIDER.parse_it, "is not a method of"),
    ],
)
def test_any_other_function_is_refused(make: Callable[[Any], Any], words: str) -> None:
    spider = Example()
    callback = make(spider)
    for request in (Request("data:,", callback), Request("data:,", errback=callback)):
        with pytest.raises(UnserializableError, match=re.escape(words)):
            Serializer(spider).dump(request)


def test_an_attribute_of_the_spider_that_changes_does_not_name_a_callback() -> None:
    spider: Any = Example()
    payload = Serializer(spider).dump(Request("data:,", spider.taken))
    spider.taken = spider.parse_async
    assert Serializer(spider).load(payload).callback == spider.parse_it
