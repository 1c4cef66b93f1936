"""Objects of third-party types, in ``meta`` and ``cb_kwargs``.

The reader is the judge: an object must come back equal, in type, too, and none of the
types' own code may run on the way.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from typing import Any, NamedTuple

import attrs
import msgpack  # type: ignore[import-untyped]
import pydantic
import pytest
import scrapy
from scrapy import Request, Spider
from support.shared_data import needs_package

from bloomdupe.errors import UnserializableError
from bloomdupe.requests.layout import changed
from bloomdupe.requests.objects import put_together, take_apart
from bloomdupe.requests.serializer import Serializer

SPIDER = Spider("example")
SAFE = Serializer(SPIDER)

ran: list[str] = []
"""The calls of the types' own code."""


@dataclasses.dataclass
class Plain:
    number: int
    names: list[str] = dataclasses.field(default_factory=list)
    inner: object = None


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
    x: int
    y: object = None


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
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_an_object_comes_back_equal(value: Any) -> None:
    hash_ = hash(value) if isinstance(value, Frozen) else None
    asked = Request("data:,", meta={"v": [value]}, cb_kwargs={"v": value})
    payload = SAFE.dump(asked)
    ran.clear()
    request = SAFE.load(payload)
    assert not ran
    for restored in (*request.meta["v"], request.cb_kwargs["v"]):
        assert restored == value
        assert type(restored) is type(value)
        assert restored is not value or isinstance(value, enum.Enum)
        assert vars_of(restored) == vars_of(value)
        assert hash_ is None or hash(restored) == hash_


def vars_of(value: object) -> dict[str, object]:
    """Return attributes that equality may leave out."""
    slots = ("base", "left_out", "number") if isinstance(value, SlottedChild) else ()
    return {
        **{name: getattr(value, name, None) for name in slots},
        **(vars(value) if isinstance(value, (Plain, Derived)) else {}),
        "set": getattr(value, "model_fields_set", None),
        "private": getattr(value, "_private", None),
    }


def test_a_method_for_playwright_comes_back() -> None:
    needs_package("scrapy_playwright")
    from scrapy_playwright.page import PageMethod

    method = PageMethod("click", "a.more", {"x": 1}, timeout=5)
    method.result = SPIDER  # of the download that it was part of
    meta = {"playwright": True, "playwright_page_methods": [method]}
    restored = SAFE.load(SAFE.dump(Request("http://a.example/", meta=meta)))
    (found,) = restored.meta["playwright_page_methods"]
    assert type(found) is PageMethod
    assert vars(found) == {
        "method": "click",
        "args": ("a.more", {"x": 1}),
        "kwargs": {"timeout": 5},
        "result": None,
    }


# What is refused when it is written


class Ordinary:
    def __init__(self) -> None:
        self.number = 1


@dataclasses.dataclass
class Closing:
    number: int

    def __del__(self) -> None:
        ran.append("del")


def local() -> object:
    @dataclasses.dataclass
    class Local:
        number: int

    return Local(1)


def print_on_page() -> Any:
    needs_package("scrapy_playwright")
    from scrapy_playwright.page import PageMethod

    return PageMethod(print)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (Ordinary, "Ordinary"),
        (lambda: Plain(1, inner={"x": Ordinary()}), "Ordinary"),
        (lambda: {Frozen(Ordinary())}, "Ordinary"),
        (lambda: Access(0), "Access"),
        (lambda: Closing(1), "Closing"),
        (local, "Local"),
        (print_on_page, "builtin_function"),
    ],
)
def test_other_objects_are_refused_and_named(make: Any, kind: str) -> None:
    request = Request("http://a.example/", meta={"good": 1, "v": [make()]})
    with pytest.raises(UnserializableError) as caught:
        SAFE.dump(request)
    reason = str(caught.value)
    place, _, what = reason.partition(" has ")
    assert place == "meta['v'][0]"
    assert kind in what
    assert reason.endswith("; plain values, dataclasses and items can be stored")


# What is refused when it is read


def payload_of(*taken: object) -> bytes:
    extension = msgpack.ExtType(10, msgpack.packb(taken))
    return changed(msgpack.packb(["\4a.example/"]), meta={"v": extension})


HERE = __name__


@pytest.mark.parametrize(
    ("value", "name"),
    [(Plain(1), "inner"), (Converted(1), "text"), (Model(number=1), "text")],
)
def test_a_field_that_the_class_has_by_now_gets_its_default(
    value: object, name: str
) -> None:
    class_name, content = take_apart(value)
    del content[name]
    assert put_together(class_name, content) == value


@pytest.mark.parametrize(
    ("taken", "reason"),
    [
        (("planted_objects:X", {}), "the module of planted_objects:X is not"),
        ((f"{HERE}:Gone", {}), "no class"),
        ((f"{HERE}:Ordinary", {}), "not a valid item class"),
        ((f"{HERE}:Closing", {"number": 1}), "its own code"),
        ((f"{HERE}:Plain", {"number": 1}), "nothing for names"),
        ((f"{HERE}:SlottedChild", {"number": 1, "x": 2}), "not as it was"),
        ((f"{HERE}:Plain", 7), "not as it was"),
        ((f"{HERE}:Color", "GREEN"), "not as it was"),
        ((f"{HERE}:Color", {"number": 1}), "not as it was"),
        ((f"{HERE}:Point", [1]), "2 fields, not"),
        ((f"{HERE}:Point", {"x": 1, "y": 2}), "2 fields, not"),
        (("builtins:tuple", []), "_fields"),
        ((), "argument"),
    ],
)
def test_an_object_that_cannot_be_restored_says_why(taken: Any, reason: str) -> None:
    with pytest.raises(UnserializableError, match=reason):
        SAFE.load(payload_of(*taken))
    assert "planted_objects" not in sys.modules
