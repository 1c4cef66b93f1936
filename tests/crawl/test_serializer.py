"""Requests as bytes, and back: callbacks, values, subclasses, and damage."""

from __future__ import annotations

import importlib
import re
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgpack  # type: ignore[import-untyped]
import pytest
from scrapy import Request, Spider
from scrapy.http import JsonRequest, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.spiders import CrawlSpider

from bloomdupe.errors import UnserializableError
from bloomdupe.requests.layout import changed, url_of
from bloomdupe.requests.serializer import Serializer


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


SPIDER = Example()
SAFE = Serializer(SPIDER)


def stored(**fields: object) -> bytes:
    """Return a stored request with these fields, which it need not be able to have."""
    return changed(msgpack.packb(["http://a.example/"]), **fields)


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
