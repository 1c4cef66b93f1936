"""The identity of a request is the same in every run, with values of any shape."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import sys
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request, Spider

from bloomdupe.crawl.requests.callbacks import is_constant
from bloomdupe.crawl.requests.canonical import DEEPEST, canonical_text
from bloomdupe.crawl.requests.identity import identity_of
from bloomdupe.crawl.requests.middleware_values import MiddlewareValues
from bloomdupe.crawl.requests.serializer import Serializer

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "http://a.example/"


class Colour(enum.Enum):
    RED = 1


@dataclass
class Node:
    name: str
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)

    def add(self, name: str) -> Node:
        self.children.append(Node(name, self))
        return self.children[-1]


class Counted(dict[str, object]):
    """A dictionary that counts how often it was opened."""

    opened = 0

    def items(self) -> Any:
        Counted.opened += 1
        return super().items()


def identity(value: object) -> str:
    request = Request(URL, dont_filter=True, meta={"v": value})
    return identity_of(request, b"").hex()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"a": [1, (2.5, None)], (True, b"b"): "\u00e9\ud800"},
            "b2a057478a78aa30ef6eaa2e796f27e0",
        ),
        ({3, "x", frozenset({1, 2})}, "19c96b5a77a4e21fb8d579e06c75bfcc"),
        (
            [
                datetime.date(2026, 1, 2),
                decimal.Decimal("1.50"),
                uuid.UUID(int=7),
                pathlib.PurePosixPath("a/b"),
                Colour.RED,
            ],
            "60c9a1658375f024237a560e504500f0",
        ),
        (Node("a", Node("b"), [Node("c")]), "0ef8a482d5e172b494f6dfd59be387db"),
        (["x" * 100_000, list(range(10_000))], "ac8a2881f7ebf6ecb6b067ec780564c0"),
        (object(), "02df7c3c9702be94d27843781436efcf"),
    ],
)
def test_identities_are_those_of_earlier_versions(value: object, expected: str) -> None:
    """Or a store that they wrote would forget which start requests are done."""
    assert identity(value) == expected


plain = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
keys = plain | st.dates() | st.tuples(plain, plain)
values = st.recursive(
    plain | st.floats() | st.builds(object),
    lambda parts: st.one_of(
        st.lists(parts),
        st.tuples(parts, parts),
        st.sets(keys),
        st.dictionaries(keys, parts),
        st.builds(Node, st.text(), st.none(), st.lists(parts)),
    ),
)


def text_by_recursion(value: Any, depth: int = 0) -> object:
    """Return the value with the text as its ``repr()``: the definition."""
    if isinstance(value, datetime.date):
        return "date", str(value)
    if value is None or type(value) in {bool, int, float, str, bytes}:
        return value
    if depth == DEEPEST:
        return None
    if isinstance(value, (list, tuple)):
        return [text_by_recursion(part, depth + 1) for part in value]
    if isinstance(value, set):
        return "set", sorted((text_by_recursion(p, depth + 1) for p in value), key=repr)
    if isinstance(value, Node):
        name, value = "Node", vars(value)
    elif isinstance(value, dict):
        name = "dict"
    else:
        return "builtins.object"
    pairs = ([text_by_recursion(p, depth + 1) for p in pair] for pair in value.items())
    return name, sorted(pairs, key=repr)


@given(values)
def test_the_text_is_that_of_a_plain_recursion(value: object) -> None:
    assert canonical_text(value) == repr(text_by_recursion(value))


def test_values_below_the_deepest_level_do_not_count() -> None:
    def nested(innermost: object, levels: int) -> object:
        for _ in range(levels):
            innermost = [innermost]
        return innermost

    assert identity(nested("a", 19)) != identity(nested("b", 19))
    assert identity(nested("a", 20)) == identity(nested("b", 20))
    assert identity(nested("a", 20_000)) == identity(nested("b", 40_000))


def test_a_shared_value_counts_like_a_copy() -> None:
    """A request that was stored has copies where it had one object in two places."""
    shared = [1, {"a": 2}]
    assert identity([shared, shared]) == identity([[1, {"a": 2}], [1, {"a": 2}]])


def family(names: str) -> Node:
    """Return a leaf of a tree of nodes that know their parents and their children."""
    root = Node("root")
    leaf = root
    for name in names:
        branch = root.add(name)
        for other in names:
            leaf = branch.add(name + other)
    return leaf


def test_objects_that_refer_to_each_other_have_an_identity() -> None:
    assert identity(family("abcde")) == identity(family("abcde"))
    assert identity(family("abcde")) != identity(family("abcdf"))
    assert identity(family("abcde")) != identity(family("abcde").parent)


def test_the_order_in_a_dictionary_does_not_count_in_a_cycle() -> None:
    one: dict[str, object] = {"a": 1, "b": 2}
    other: dict[str, object] = {"b": 2, "a": 1}
    one["self"] = [one]
    other = {"self": [other], **other}
    other["self"] = [other]
    assert identity(one) == identity(other)


@pytest.mark.parametrize("nodes", [7, 10_000])
def test_each_object_is_opened_once(nodes: int) -> None:
    """It may be referred to from any number of places."""
    objects = [Counted(name=str(number)) for number in range(nodes)]
    for number, each in enumerate(objects):
        for step in (1, 2, 3):
            each[f"next {step}"] = objects[(number + step) % nodes]
    Counted.opened = 0
    identity(objects[0])
    assert 0 < Counted.opened <= min(nodes, 5_000)


def test_wide_values_that_are_shared_do_not_multiply() -> None:
    text: object = ["x" * 1_000_000]
    for _ in range(30):
        text = [text, text]
    assert len(canonical_text(text)) < 200_000_000
    one = [list(range(1_000))] * 10_000
    assert len(canonical_text(one)) < 1_000_000


def test_integers_that_python_does_not_write_in_decimal_digits() -> None:
    large = 10 ** (2 * sys.int_info.default_max_str_digits)
    assert identity(large) != identity(large + 1)


NAMES = ("proxy", "_token", "session")


def answered(value: str) -> tuple[Request, MiddlewareValues]:
    """Return a request with values that middlewares have set, and these values."""
    request = Request(URL, headers={"X-Given": "1"}, meta={"given": 1})
    added = MiddlewareValues(request)
    for name in ("User-Agent", "X-Session"):
        request.headers[name] = value
    request.meta.update({name: f"{name} {value}" for name in NAMES})
    added.look(request)
    return request, added


COPIES: list[Callable[[Request], Request]] = [
    lambda page: page.replace(dont_filter=True),
    lambda page: Request(URL, headers=page.headers, meta=page.meta),
    lambda page: Request(
        URL, headers=dict(page.headers.items()), meta={**page.meta, "given": 1}
    ),
]


@pytest.mark.parametrize("copied", COPIES)
def test_values_that_a_spider_copies_from_the_page_do_not_count(
    copied: Callable[[Request], Request],
) -> None:
    given = Request(URL, headers={"X-Given": "1"}, meta={"given": 1})
    found = {
        identity_of(copied(page), b"f", added)
        for page, added in map(answered, ("one", "other"))
    }
    assert found == {identity_of(given, b"f")}


@pytest.mark.parametrize("name", NAMES)
def test_a_single_value_that_is_copied_does_not_count(name: str) -> None:
    page, added = answered("one")
    copied = Request(URL, meta={name: page.meta[name]})
    assert identity_of(copied, b"f", added) == b"f"
    assert identity_of(copied, b"f") != b"f"


@pytest.mark.parametrize("value", ["two", b"two", 2.5, 1_000, -6])
def test_a_value_counts_that_middleware_and_spider_have_from_one_list(
    value: Any,
) -> None:
    """Or one of the children could be taken for another one, and be lost."""
    page = Request(URL)
    added = MiddlewareValues(page)
    page.meta["chosen"] = value
    page.headers["Chosen"] = str(value)
    page.headers.appendlist("Chosen", b"further")
    for _ in range(2):
        added.look(page)
    assert page.meta["chosen"] == value
    assert type(page.meta["chosen"]) is type(value)
    assert page.headers.getlist("Chosen") == [str(value).encode(), b"further"]
    for copied in (Request(URL, meta=page.meta), Request(URL, headers=page.headers)):
        assert identity_of(copied, b"f", added) == b"f"
    given = Request(URL, meta={**page.meta, "chosen": value})
    assert identity_of(given, b"f", added) != b"f"


def test_a_header_counts_that_middleware_and_spider_have_from_one_list() -> None:
    agents = [b"one", b"two"]
    page = Request(URL)
    added = MiddlewareValues(page)
    page.headers["User-Agent"] = agents[0]
    added.look(page)
    given = Request(URL, headers={"User-Agent": agents[0]})
    assert identity_of(given, b"f", added) != b"f"


@pytest.mark.parametrize("value", [0, True, None, Colour.RED, "x", b""])
def test_a_value_counts_that_a_spider_may_have_put_into_a_copy(value: object) -> None:
    page = Request(URL)
    added = MiddlewareValues(page)
    page.meta["jar"] = value
    added.look(page)
    copied = Request(URL, meta={**page.meta, "jar": value})
    assert identity_of(copied, b"f", added) != b"f"


def test_a_value_counts_that_the_callback_has_set() -> None:
    found = set()
    for page, added in map(answered, ("one", "other")):
        before = identity_of(Request(URL, meta=page.meta), b"f", added)
        page.meta["session"] = "of the callback"
        copied = Request(URL, meta=page.meta)
        assert identity_of(copied, b"f", added) != before
        found.add(identity_of(copied, b"f", added))
    assert len(found) == 1


def test_of_a_stored_retry_the_usual_values_do_not_count() -> None:
    """The request before it has got them from middlewares."""
    retry, _ = answered("one")
    retry.meta["retry_times"] = 1
    added = MiddlewareValues(retry)
    added.look(retry)
    copied = Request(URL, headers=retry.headers, meta=retry.meta)
    for name in ("X-Given", "X-Session"):
        del copied.headers[name]
    del copied.meta["given"], copied.meta["session"]
    assert identity_of(copied, b"f", added) == b"f"


def test_values_that_the_page_came_with_count() -> None:
    page = Request(URL, headers={"Accept-Language": "de"}, meta={"_account": "me"})
    added = MiddlewareValues(page)
    added.look(page)
    for copied in (Request(URL, headers=page.headers), Request(URL, meta=page.meta)):
        assert identity_of(copied, b"f", added) != b"f"


def test_a_header_of_one_byte_counts() -> None:
    page = Request(URL)
    added = MiddlewareValues(page)
    page.headers["X-Flag"] = b"1"
    added.look(page)
    copied = Request(URL, headers={"X-Flag": "1"})
    assert identity_of(copied, b"f", added) != b"f"


def test_values_of_middlewares_do_not_count_in_the_request_itself() -> None:
    request = Request(URL)
    added = MiddlewareValues(request)
    request.meta["session"] = "a session"
    added.look(request)
    assert identity_of(request, b"f", added) == b"f"


def test_values_that_a_spider_gives_count_if_they_equal_those_of_the_page() -> None:
    """The page has a random value of the same list, another in the next run."""
    parents = [answered(value)[1] for value in ("one", "other")]
    for name in ("headers", "meta"):
        given = {name: getattr(answered("one")[0], name)}
        found = {identity_of(Request(URL, **given), b"f", each) for each in parents}
        assert len(found) == 1
        assert found != {b"f"}


def test_a_header_that_a_child_takes_away_counts() -> None:
    _, added = answered("one")
    without = Request(URL, headers={"User-Agent": None})
    assert identity_of(without, b"f", added) != b"f"


class Odd:
    """Looking for an attribute that it does not have raises no AttributeError."""

    def __getattr__(self, name: str) -> object:
        raise KeyError(name)

    def __repr__(self) -> str:
        raise RuntimeError


def test_a_value_whose_own_code_raises_is_of_an_unknown_type() -> None:
    assert canonical_text(Odd()) == canonical_text(Odd())
    request = Request(URL, meta={"odd": Odd()})
    serializer = Serializer(Spider("s"))
    assert serializer.dump_or_none(request) is None
    assert "meta['odd'] is of type" in serializer.explain(request)


class Unbound:
    """A proxy that raises whatever it is asked, even for its class."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError


def test_a_proxy_that_is_not_bound_may_change() -> None:
    assert canonical_text(Unbound()) == canonical_text(Unbound())
    assert not is_constant(Unbound())
