"""Values as bytes, and back, in ``meta`` and ``cb_kwargs``; those of items, too.

The reader is the judge: a value must come back equal, in type, too, and no code of its
type may run on the way.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import io
import json
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import TZPATH, ZoneInfo

import attrs
import msgpack  # type: ignore[import-untyped]
import pydantic
import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from itemadapter import ItemAdapter
from scrapy import Request, Selector, Spider
from support.shared_data import needs_package

from bloomdupe.errors import UnserializableError
from bloomdupe.requests import serializer
from bloomdupe.requests.layout import changed
from bloomdupe.requests.objects import put_together, take_apart
from bloomdupe.requests.serializer import Serializer
from bloomdupe.requests.values import Writer, pack, pack_item, unpack, unpack_item

SPIDER = Spider("example")
SAFE = Serializer(SPIDER)


def back(request: Request) -> Request:
    return SAFE.load(SAFE.dump(request))


ran: list[str] = []
"""The calls of the types' own code."""


@dataclasses.dataclass
class Plain:
    number: int
    names: list[str] = dataclasses.field(default_factory=list)
    inner: object = None


@dataclasses.dataclass
class Private:
    _values: list[int]


@dataclasses.dataclass(frozen=True)
class Frozen:
    pair: Any


class Slotted:
    __slots__ = ("base", "left_out")


@dataclasses.dataclass
class SlottedChild(Slotted):
    __slots__ = ("number",)
    number: int


@dataclasses.dataclass
class Derived:
    text: str
    upper: str = dataclasses.field(init=False)
    extra: dataclasses.InitVar[int] = 0

    def __post_init__(self, extra: int) -> None:
        ran.append("post_init")
        self.upper = self.text.upper()
        self.beside = extra

    def __setattr__(self, name: str, value: object) -> None:
        ran.append("setattr")
        super().__setattr__(name, value)

    @property
    def beside(self) -> int:
        return self.__dict__["beside"]  # type: ignore[no-any-return]

    @beside.setter
    def beside(self, value: int) -> None:
        ran.append("property")
        self.__dict__["beside"] = value


@attrs.define
class Converted:
    number: int = attrs.field(converter=int)
    other: Any = attrs.field(factory=dict, validator=attrs.validators.instance_of(dict))
    text: str = "t"

    def __attrs_post_init__(self) -> None:
        ran.append("attrs")


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    number: int
    text: str = pydantic.Field(default="t", alias="theText")
    tags: list[str] = []
    found: dict[str, int] = pydantic.Field(default_factory=dict)
    _private: list[int] = pydantic.PrivateAttr(default_factory=list)

    def model_post_init(self, _: Any) -> None:
        ran.append("model")

    @pydantic.field_validator("number")
    @classmethod
    def twice(cls, number: int) -> int:
        ran.append("validator")
        return 2 * number


class Color(enum.Enum):
    RED = (1, 2)


class Word(str, enum.Enum):
    YES = "yes"


class Level(enum.IntEnum):
    LOW = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    BOTH = 3


class Point(NamedTuple):
    x: Any
    y: object = None


class Text(str):
    __slots__ = ("parent",)


class Product(scrapy.Item):
    name = scrapy.Field()
    price = scrapy.Field()

    def __setitem__(self, name: str, value: object) -> None:
        ran.append("setitem")
        super().__setitem__(name, value)


def slotted() -> SlottedChild:
    child = SlottedChild(5)
    child.base = "b"  # type: ignore[attr-defined]
    return child


def with_privates() -> Model:
    model = Model.model_validate({"number": 1, "theText": "x", "more": [1]})
    model._private.append(7)
    return model


VALUES = [
    Plain(2, ["a"], {"deep": [Plain(3), {Frozen((1, 2))}]}),
    {Frozen((1, 2)): Frozen((3, 4))},
    slotted(),
    Derived("text", 3),
    Converted("7", {"a": Plain(1)}),
    with_privates(),
    Model(number=3, theText="x"),
    Color.RED,
    Word.YES,
    {Level.LOW: Word.YES},
    Access.BOTH,
    Point(1, (2, Point(3))),
    Product(name="n"),
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
]


@pytest.mark.parametrize("value", VALUES, ids=ascii)
def test_a_value_comes_back_equal(value: Any) -> None:
    asked = Request("data:,", meta={"v": [value]}, cb_kwargs={"v": value})
    payload = SAFE.dump(asked)
    ran.clear()
    request = SAFE.load(payload)
    assert not ran
    for restored in (*request.meta["v"], request.cb_kwargs["v"]):
        assert restored == value
        assert type(restored) is type(value)
        assert repr(restored) == repr(value)
        assert restored is not value or isinstance(value, enum.Enum)
        assert state_of(restored) == state_of(value)


def state_of(value: object) -> object:
    """Return what a pickle would have of it: equality may leave out attributes."""
    return value.__reduce_ex__(4)[2:3]


@given(st.datetimes(timezones=st.timezones(), allow_imaginary=True) | st.times())
def test_times_come_back_with_zone_and_fold(value: Any) -> None:
    restored = unpack(pack(value))
    assert repr(restored) == repr(value)
    assert restored.utcoffset() == value.utcoffset()
    assert unpack(pack_item([value])) == [value]


class Zone(ZoneInfo):
    """Cannot be stored, as those of dateutil."""


MADE: Any = dataclasses.make_dataclass("Made", [("path", Any)], frozen=True)
NAMELESS_ENUM: Any = enum.Enum("Made", {"RED": "red"}, type=str)  # type: ignore[misc]
ZONE = Zone("Asia/Tokyo")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=ZONE)
Moment: Any = type("Moment", (datetime.datetime,), {})
NESTED = json.loads("[" * 390 + "]" * 390)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (MADE(MADE([1])), {"path": {"path": [1]}}),
        (NOON, datetime.datetime.fromisoformat("2026-01-01T12:00+09:00")),
        (datetime.time(12, tzinfo=ZONE), datetime.time(12)),
        (Moment(2026, 1, 1), datetime.datetime.fromisoformat("2026-01-01")),
        (NOON.isocalendar(), [2026, 1, 4]),
        ({frozenset([MADE("a")])}, [[{"path": "a"}]]),
        (NAMELESS_ENUM.RED, "red"),
        ({complex(1): {complex(2)}}, {"(1+0j)": {"(2+0j)"}}),
        (NESTED, NESTED),
    ],
)
def test_an_item_that_cannot_be_stored_is_kept_so_that_it_can_be_read(
    value: Any, expected: object
) -> None:
    item = {"in": [value], "tuple": (value,)}
    assert unpack(pack_item(item)) == {"in": [expected], "tuple": (expected,)}
    with pytest.raises(UnserializableError, match="unhashable"):
        pack_item({**item, MADE("a"): 1})


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


PLAIN_VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda values: (
        st.lists(values, max_size=3)
        | st.tuples(values, values)
        | st.dictionaries(st.text() | st.integers(), values, max_size=3)
    ),
    max_leaves=20,
)


@given(PLAIN_VALUES)
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


def test_a_method_for_playwright_comes_back() -> None:
    needs_package("scrapy_playwright")
    from scrapy_playwright.page import PageMethod

    method = PageMethod("click", "a.more", {"x": 1}, timeout=5)
    method.result = SPIDER  # of the download that it was part of
    meta = {"playwright": True, "playwright_page_methods": [method]}
    restored = back(Request("http://a.example/", meta=meta))
    (found,) = restored.meta["playwright_page_methods"]
    assert type(found) is PageMethod
    assert vars(found) == {
        "method": "click",
        "args": ("a.more", {"x": 1}),
        "kwargs": {"timeout": 5},
        "result": None,
    }
    with pytest.raises(UnserializableError, match="builtin_function"):
        SAFE.dump(Request("http://a.example/", meta={"v": PageMethod(print)}))


# What is refused when it is written


class Ordinary:
    def __init__(self) -> None:
        self.number = 1


@dataclasses.dataclass
class Closing:
    number: int

    def __del__(self) -> None: ...


def local() -> object:
    @dataclasses.dataclass
    class Local:
        number: int

    return Local(1)


DERIVED: list[Any] = [
    type(kind.__name__.title(), (kind,), {"__module__": "no.such"})()
    for kind in (str, int, float, bytes, list, dict, set, tuple, Counter)
]
NAMELESS = next(path for path in map(Path, TZPATH) if (path / "UTC").exists()) / "UTC"
ITSELF: list[object] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Ordinary(), "has .*Ordinary"),
        (Plain(1, inner={"x": Ordinary()}), "has .*Ordinary"),
        ({Frozen(Ordinary())}, "has .*Ordinary"),
        (Access(0), "has .*Access"),
        (Closing(1), "has .*Closing"),
        (local(), "has .*Local"),
        *((one, f"has .*{type(one).__name__}") for one in DERIVED),
        ({Text("x"): 1}, "has .*Text"),
        (object(), "has .*object"),
        (open, "has .*builtin_function"),
        (SPIDER, "has .*Spider"),
        ({"in": [complex(1)]}, r"\['in'\]\[0\] has .*complex"),
        (defaultdict(lambda: 1), "has .*defaultdict"),
        (ITSELF, r"(\[0\])+ has values nested more than 100 levels deep"),
        (memoryview(b"x"), "has .*memoryview"),
        ((memoryview(b"x"), 1), r"\[0\] has .*memoryview"),
        (bytearray(b"x"), "has .*bytearray"),
        (
            datetime.time(tzinfo=ZoneInfo.from_file(io.BytesIO(NAMELESS.read_bytes()))),
            "has .*ZoneInfo",
        ),
    ],
)
def test_other_values_are_refused_and_named(value: object, said: str) -> None:
    request = Request("http://a.example/", meta={"good": 1, "v": [value]})
    place, way_out = r"^meta\['v'\]\[0\] ?", "; plain values, dataclasses and items"
    with pytest.raises(UnserializableError, match=f"{place}{said}.*{way_out} can be"):
        SAFE.dump(request)


def doubled(value: Any, pair: Callable[[Any], Any], times: int) -> Any:
    for _ in range(times):
        value = pair(value)
    return value


@pytest.mark.parametrize(
    "pair",
    [
        lambda value: {"a": value, "b": value},
        lambda value: [(value, 1), {"a": value}],
        lambda value: Point(value, value),
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
    offer, pair = {"price": [1]}, Point([], 1)
    item = {"offers": ({"a": 1}, offer), "own": deque([pair]), "all": {pair[:0]}}
    meta = {"item": item, "prices": offer["price"], "pairs": [pair, pair.x]}
    given = Request("http://a.example/", meta=meta, cb_kwargs={"offer": offer})
    request = back(given)
    assert (request.meta, request.cb_kwargs) == (given.meta, given.cb_kwargs)
    found, prices = request.meta["item"]["offers"][1], request.meta["prices"]
    assert found is request.cb_kwargs["offer"]
    assert found["price"] is prices
    assert found is not offer
    (own,), (listed, inner) = request.meta["item"]["own"], request.meta["pairs"]
    assert own is listed
    assert own.x is inner
    assert SAFE.dump(request) == SAFE.dump(given)


# What is refused when it is read


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Plain(1), "inner"),
        (Plain(1), "names"),
        (Converted(1), "text"),
        (Converted(1), "other"),
        (Model(number=1), "text"),
        (Model(number=1), "tags"),
        (Model(number=1), "found"),
    ],
)
def test_a_field_that_the_class_has_by_now_gets_its_default(
    value: object, name: str
) -> None:
    class_name, content = take_apart(value)
    del content[name]
    assert put_together(class_name, content) == value


HERE, OBJECT = __name__, 10


@pytest.mark.parametrize(
    ("code", "taken", "reason"),
    [
        (OBJECT, ("planted_objects:X", {}), "the module of planted_objects:X is not"),
        (OBJECT, (f"{HERE}:Gone", {}), "no class"),
        (OBJECT, (f"{HERE}:Ordinary", {}), "not a valid item class"),
        (OBJECT, (f"{HERE}:Closing", {"number": 1}), "its own code"),
        (OBJECT, (f"{HERE}:Plain", {"names": []}), "nothing for number"),
        (OBJECT, (f"{HERE}:SlottedChild", {"number": 1, "x": 2}), "not as it was"),
        (OBJECT, (f"{HERE}:Plain", 7), "not as it was"),
        (OBJECT, (f"{HERE}:Color", "GREEN"), "not as it was"),
        (OBJECT, (f"{HERE}:Color", {"number": 1}), "not as it was"),
        (OBJECT, (f"{HERE}:Point", [1]), "2 fields, not"),
        (OBJECT, (f"{HERE}:Point", {"x": 1, "y": 2}), "2 fields, not"),
        (OBJECT, ("builtins:tuple", []), "_fields"),
        (OBJECT, (), "argument"),
        (14, ("now", 7, 0), "interpreted as an integer"),
        (19, (7,), "out of range"),
    ],
)
def test_a_value_that_cannot_be_restored_says_why(
    code: int, taken: Any, reason: str
) -> None:
    value = msgpack.ExtType(code, msgpack.packb(taken))
    payload = changed(msgpack.packb(["http://a.example/"]), meta={"v": value})
    with pytest.raises(UnserializableError, match=reason):
        SAFE.load(payload)
    assert "planted_objects" not in sys.modules


@pytest.mark.parametrize(
    ("item", "fields"),
    [
        (Plain(1, [], Frozen(2)), {"number": 1, "names": [], "inner": Frozen(2)}),
        (SlottedChild(3), {"number": 3}),
        (Private([1]), {"_values": [1]}),  # a field of a scrapy.Item, by its name
        (Converted(4), {"number": 4, "other": {}, "text": "t"}),
        (
            Model.model_validate({"number": 5, "more": "m"}),
            {"number": 10, "text": "t", "tags": [], "found": {}, "more": "m"},
        ),
        (Product(name="p"), {"name": "p"}),
    ],
)
def test_an_item_whose_class_has_gone_is_a_dictionary(
    item: Any, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, told = pack_item([item, item]), list[str]()
    monkeypatch.delattr(sys.modules[__name__], type(item).__name__)
    first, second = unpack_item(data, lambda name, _: told.append(name))
    assert first == second == fields
    assert {*told} == {f"{__name__}:{type(item).__name__}"}


@pytest.mark.parametrize("item", [Plain(1, [], None), Product(name="p")])
def test_an_item_whose_class_lacks_a_field_by_now_is_a_dictionary(
    item: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields, told, kind = dict(ItemAdapter(item)), list[str](), type(item)
    other: Any = dataclasses.make_dataclass(kind.__name__, [("number", int)])
    if isinstance(item, scrapy.Item):
        other = type(kind.__name__, (scrapy.Item,), {"code": scrapy.Field()})
    vars(item)["set_later"] = 1  # which no exporter has ever seen
    data, parts = pack_item(item), take_apart(item)
    assert unpack_item(data, print) == item
    monkeypatch.setattr(sys.modules[__name__], kind.__name__, other)
    found = unpack_item(data, lambda _, error: told.append(str(error)))
    assert fields.items() <= found.items()
    assert "has no field" in told[0]
    with pytest.raises(UnserializableError, match="has no field"):
        unpack(data, exported=True)
    assert isinstance(put_together(*parts), other), "a request goes on all the same"


def test_an_object_of_no_class_is_a_text_in_a_set(monkeypatch: Any) -> None:
    data = pack_item([{Frozen(1)}, {Frozen(2): 3}])
    item = pack_item(Frozen({Frozen(1)}))
    monkeypatch.delattr(sys.modules[__name__], "Frozen")
    assert str(unpack_item(data, print)) == """[{"{'pair': 1}"}, {"{'pair': 2}": 3}]"""
    assert unpack_item(item, print) == {"pair": {"{'pair': 1}"}}
