from __future__ import annotations

import datetime
import decimal
import pickle
import uuid
from enum import Enum
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK

from bloomdupe.errors import UnserializableError
from bloomdupe.serializer import Serializer, url_of


class Example(Spider):
    name = "example"

    def parse_it(self, response: Any) -> None: ...

    def __hidden(self, response: Any) -> None: ...

    def hidden(self) -> Any:
        return self.__hidden


class Color(str, Enum):
    RED = "red"


class Text(str):
    __slots__ = ("parent",)


SPIDER = Example()
SAFE = Serializer(SPIDER)
PICKLES = Serializer(SPIDER, pickles=True)
NONE = (None, None, None)
UTC = datetime.timezone.utc


def back(request: Request, serializer: Serializer = SAFE) -> Request:
    return serializer.load(serializer.dump(request))


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
        FormRequest("http://a.example/", formdata={"a": "b"}),
        JsonRequest("http://a.example/", data={"a": 1}, dumps_kwargs={"indent": 2}),
        XmlRpcRequest("http://a.example/", params=(1,), methodname="m"),
        Request("data:,hello"),
        Request("http://a.example/b/c", headers={"Referer": "http://a.example/b/c"}),
        Request("http://a.example/b/c", headers={"Referer": "http://a.example/b/"}),
        Request("http://a.example/b/c", headers={"Referer": "http://a.example/d"}),
        Request("http://a.example/b/c", headers={"Referer": "https://b.example/d"}),
        Request("http://a.example/", headers={"Referer": ""}),
        Request("http://a.example/", headers={"Referer": b"\xff/\xe4"}),
        Request("http://a.example/", headers={"Referer": ["a", "b"]}),
        Request("http://a.example/", headers={"Referer": "x", "Later": "y"}),
        Request(
            "http://\xe4.example/\u20ac",
            headers={"Referer": "http://\xe4.example/".encode("latin-1")},
            meta={"verbatim_url": True, "depth": True},
        ),
        Request("http://a.example/", meta={"depth": 0, "x": 1}),
        Request("http://www.a.example/", headers={"Referer": "http://www.a.example/b"}),
        Request("https://www.a.example/", headers={"Referer": "https://www."}),
        Request("https://a.example/", headers={"Referer": "https://www.a.example/"}),
        Request("\4a://verbatim", meta={"verbatim_url": True}),
        Request("\5a://verbatim", meta={"verbatim_url": True}),
    ],
)
def test_requests_come_back_as_they_were(request_: Request) -> None:
    restored = back(request_)
    assert type(restored) is type(request_)
    for name in (*request_.attributes, "callback", "errback"):
        assert getattr(restored, name) == getattr(request_, name), name


@pytest.mark.parametrize(
    "value",
    [
        (1, (2, [3])),
        {1, 2},
        frozenset("ab"),
        {(1, 2): "tuple as key", b"bytes": 1},
        2**200,
        -(2**64),
        datetime.date(2026, 8, 1),
        datetime.datetime(2026, 8, 1, 12, 30, 1, 5),  # noqa: DTZ001 - also naive ones
        datetime.datetime(2026, 8, 1, tzinfo=UTC),
        datetime.timedelta(days=-1, microseconds=5),
        decimal.Decimal("1.10"),
        uuid.UUID(int=7),
        "\ud800",
        float("inf"),
        b"",
    ],
)
def test_values_come_back_as_what_they_were(value: object) -> None:
    restored = back(Request("http://a.example/", cb_kwargs={"v": value}))
    assert restored.cb_kwargs == {"v": value}
    assert type(restored.cb_kwargs["v"]) is type(value)


VALUES: st.SearchStrategy[object] = st.deferred(
    lambda: (
        st.none()
        | st.booleans()
        | st.integers()
        | st.text()
        | st.binary()
        | st.lists(VALUES, max_size=3)
        | st.tuples(VALUES, VALUES)
        | st.dictionaries(st.text() | st.integers(), VALUES, max_size=3)
    )
)


@given(VALUES)
def test_any_plain_value_comes_back(value: object) -> None:
    restored = back(Request("http://a.example/", meta={"v": value}))
    assert restored.meta == {"v": value}


def test_texts_that_know_their_origin_become_plain_ones() -> None:
    restored = back(Request("http://a.example/", meta={"v": Text("x")}))
    assert type(restored.meta["v"]) is str


@pytest.mark.parametrize(
    "value", [object(), Color.RED, {"nested": [complex(1)]}, open, SPIDER]
)
def test_other_values_are_refused_and_the_way_out_is_named(value: object) -> None:
    with pytest.raises(UnserializableError, match="BLOOMDUPE_SERIALIZER"):
        SAFE.dump(Request("http://a.example/", meta={"v": value}))


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(UnserializableError):
        SAFE.dump(Request("http://a.example/", meta={"v": value}))


def test_foreign_callbacks_are_refused() -> None:
    for callback in (print, lambda _: None, Example().parse_it):
        with pytest.raises(UnserializableError, match="is not a method of"):
            SAFE.dump(Request("http://a.example/", callback=callback))


def test_pickles_carry_what_msgpack_cannot() -> None:
    request = Request("http://a.example/", meta={"v": complex(1, 2)})
    assert back(request, PICKLES).meta == request.meta


def test_pickles_are_written_only_where_they_are_needed() -> None:
    assert PICKLES.dump(Request("http://a.example/"))[:1] != b"P"


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("code from the store was run",))


def test_a_planted_pickle_is_not_loaded() -> None:
    planted = b"P" + pickle.dumps(Bomb())
    with pytest.raises(UnserializableError, match="it is a pickle"):
        SAFE.load(planted)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (["\4a.example/", *NONE, {13: "os.system"}], "not a subclass of Request"),
        (["\4a.example/", *NONE, {13: "no.such.Class"}], "no"),
        (["\4a.example/", *NONE, {1: "gone"}], "no method 'gone'"),
        (["\4a.example/", *NONE, {1: "name"}], "no method 'name'"),
        ([""], "index out of range"),
        ([7], "subscriptable"),
        (["\4a.example/", *NONE, 7], "not iterable"),
        (["\4a.example/", 1, "x"], "indices"),
        ([], "unknown kind"),
        ({}, "unknown kind"),
    ],
)
def test_what_cannot_be_restored_says_why(fields: object, reason: str) -> None:
    import msgpack  # type: ignore[import-untyped]

    with pytest.raises(UnserializableError, match=reason):
        SAFE.load(msgpack.packb(fields))


@pytest.mark.parametrize(
    "payload", [b"", b"M", b"\x91\xc1", b"X123", b"P", b"\x90", b"\x92\xa1"]
)
def test_garbage_is_refused(payload: bytes) -> None:
    with pytest.raises(UnserializableError):
        SAFE.load(payload)
    assert url_of(payload)


def test_what_is_in_most_requests_takes_a_byte_each() -> None:
    request = Request(
        "https://www.example.com/articles/12/title.html",
        headers={"Referer": "https://www.example.com/articles/12/"},
        meta={"depth": 7},
    )
    assert len(SAFE.dump(request)) == len(request.url) - len("https://www.") + 6


def test_the_url_of_any_request_can_be_told() -> None:
    payload = SAFE.dump(Request("http://a.example/x", callback=SPIDER.parse_it))
    assert url_of(payload) == "http://a.example/x"


def test_a_planted_url_breaks_no_line_of_the_log() -> None:
    payload = msgpack.packb(["http://a.example/\n2026-01-01 [x] CRITICAL: forged"])
    assert "\n" not in url_of(payload)
