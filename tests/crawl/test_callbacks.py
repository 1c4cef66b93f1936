"""Callbacks that are no methods: partials, lambdas and functions in methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from scrapy import Request, Spider
from scrapy.spiders import CrawlSpider
from support.jobs import run_script

from bloomdupe.crawl.requests.callbacks import Callbacks
from bloomdupe.crawl.requests.identity import identity_of, is_once_more
from bloomdupe.crawl.requests.layout import CALLBACK, FUNCTIONS
from bloomdupe.crawl.requests.nested_code import digest_of_code
from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.errors import UnserializableError

URL = "http://a.example/"
NONE = (None, None, None)


def noted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return wrapper


def hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*args)  # noqa: PLW0108 - a function of its own


class Base(Spider):
    """A base class of spiders."""

    name = "base"

    def got(self, response: Any, *args: Any, **kwargs: Any) -> Any:
        return (self.name, response, *args, *kwargs.items())

    def of_the_base(self, part: str) -> Any:
        return lambda r: self.got(r, "base", part)

    def overridden(self) -> Any:
        return lambda r: self.got(r)  # noqa: PLW0108 - a lambda is wanted


class Many(Base):
    """Makes callbacks as people do; each method returns one."""

    name = "many"

    def overridden(self) -> Any:
        return super().overridden()

    def of_a_partial(self) -> Any:
        return partial(self.got, 1, "two", part=(3, None))

    def of_a_partial_of_a_partial(self) -> Any:
        return partial(partial(self.got, 1), part=2)

    def of_a_lambda(self) -> Any:
        category = "books"
        return lambda r: self.got(r, category)

    def of_defaults(self) -> Any:
        return lambda r, page=2, *, last=b"x": self.got(r, page, last)

    def of_a_method_in_the_closure(self) -> Any:
        parse = self.got
        return lambda r: parse(r, 1)

    def of_a_lambda_in_a_lambda(self) -> Any:
        outer = 1

        def follow(inner: int) -> Any:
            return lambda r: self.got(r, outer, inner)

        return follow(2)

    def of_a_comprehension(self) -> Any:
        return [lambda r, n=n: self.got(r, n) for n in (1, 2)][1]

    def of_a_helper(self) -> Any:
        def helper(value: int) -> int:
            return value + 1

        return lambda r: self.got(r, helper(1))

    def of_a_partial_of_a_function(self) -> Any:
        def parse(r, page):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return self.got(r, page)

        return partial(parse, page=self.got)

    def of_itself(self) -> Any:
        def parse(r: Any, left: int = 3) -> Any:
            return parse(r, left - 1) if left else self.got(r, "end")

        return parse

    def of_each_other(self) -> Any:
        def even(r: Any, n: int = 4) -> Any:
            return odd(r, n - 1) if n else self.got(r, "even")

        def odd(r: Any, n: int = 3) -> Any:
            return even(r, n - 1) if n else self.got(r, "odd")

        return odd

    @noted
    def of_a_decorated_method(self) -> Any:
        return lambda r: self.got(r, "decorated")

    @staticmethod
    def of_a_static_method() -> Any:
        return lambda r: ("static", r)

    @classmethod
    def of_a_class_method(cls) -> Any:
        name = cls.name
        return lambda r: (name, r)

    def of_annotations(self) -> Any:
        def parse(r: str, page: int = 1) -> Any:
            return self.got(r, page)

        return parse

    def letters(self) -> Any:
        return (each for each in self.name)

    def of_a_frozenset(self) -> Any:
        known = frozenset("ab")
        return lambda r: self.got(r, "b" in known, r in {"x", "y"})


MAKERS = [
    *(name for name in vars(Many) if name.startswith("of_")),
    "overridden",
    "of_the_base",
]


def made(spider: Any, name: str) -> Any:
    return getattr(spider, name)(*(["x"] if name == "of_the_base" else []))


def back(spider: Spider, callback: Any, **more: Any) -> Any:
    """Return the callback that another process would have."""
    payload = Serializer(spider).dump(Request(URL, callback, **more))
    return Serializer(spider).load(payload).callback


@pytest.mark.parametrize("name", MAKERS)
def test_a_function_comes_back(name: str) -> None:
    spider = Many()
    callback = made(spider, name)
    again = back(spider, callback)
    assert again is not callback
    assert again("x") == callback("x")
    other = Many(name="other")
    request: Any = Serializer(other).load(
        Serializer(spider).dump(Request(URL, callback))
    )
    assert request.callback("x") == (
        callback if name == "of_a_class_method" else made(other, name)
    )("x")
    assert back(spider, again)("x") == callback("x")  # as by a retry


@pytest.mark.parametrize("name", MAKERS)
def test_an_errback_is_stored_likewise(name: str) -> None:
    spider = Many()
    function = made(spider, name)
    request = Request(URL, spider.got, errback=function)
    again: Any = Serializer(spider).load(Serializer(spider).dump(request))
    assert again.callback == spider.got
    assert again.errback("x") == function("x")


class Kinds(Base):
    """Callbacks of each kind that Scrapy knows."""

    def callbacks(self) -> list[Any]:
        page = 3

        async def waits(r: Any) -> Any:
            return r, page

        def yields(r: Any) -> Any:
            yield r, page

        async def yields_and_waits(r: Any) -> Any:
            yield r, page

        return [waits, yields, yields_and_waits]


def test_a_coroutine_stays_a_coroutine() -> None:
    spider = Kinds()
    waits, yields, both = (back(spider, each) for each in spider.callbacks())
    assert inspect.iscoroutinefunction(waits)
    assert list(yields("x")) == [("x", 3)]
    assert inspect.isasyncgenfunction(both)


def test_values_are_those_of_the_moment() -> None:
    class Loop(Base):
        def requests(self) -> Any:
            for page in range(3):
                callback: Any = lambda r: (r, page)  # noqa: B023, E731
                yield Request(URL, callback)

    spider = Loop()
    payloads = [Serializer(spider).dump(each) for each in spider.requests()]
    found: list[Any] = [Serializer(spider).load(each) for each in payloads]
    pages = [request.callback("x")[1] for request in found]
    assert pages == [0, 1, 2]


class Subclass(Request):
    """A request of a class that is not Scrapy's: it is tried out."""


class Own(Request):
    """Its constructor puts a callback of its own in the place of another."""

    def __init__(self, *args: Any, callback: Any = None, **more: Any) -> None:
        if callback is not None:
            more["callback"] = partial(callback, "own")
        super().__init__(*args, **more)


def test_requests_of_other_classes_have_functions_too() -> None:
    spider = Many()
    callback = spider.of_a_lambda()
    request = Subclass(URL, callback, errback=spider.of_a_partial())
    again: Any = Serializer(spider).load(Serializer(spider).dump(request))
    assert again.callback("x") == callback("x")
    assert type(again) is Subclass
    with pytest.raises(UnserializableError, match="its constructor changes callback"):
        Serializer(spider).dump(Own(URL, callback=spider.of_a_partial()))


class Rules(CrawlSpider):
    name = "rules"

    def of_a_lambda(self) -> Any:
        return lambda r: (self.name, r)


def test_a_crawl_spider_has_them_too() -> None:
    spider = Rules()
    assert back(spider, spider.of_a_lambda())("x") == ("rules", "x")


# Functions that are not stored


class Callable_:  # noqa: N801 - its like is anywhere
    def __call__(self, response: Any) -> None: ...


class Refused(Base):
    """Callbacks that cannot be stored, each with the words that say why."""

    attribute = (lambda self, r: self.got(r),)

    def of_a_list(self) -> Any:
        found: list[Any] = []
        return lambda r: found.append(r.url), "'found' of type builtins.list"

    def of_an_item(self) -> Any:
        item = {"a": 1}
        return lambda r: self.got(r, item), "'item' of type builtins.dict"

    def of_a_list_in_a_tuple(self) -> Any:
        pair = (1, [])  # type: ignore[var-annotated]
        return lambda r: self.got(r, pair), "'pair' of type builtins.tuple"

    def of_a_default(self) -> Any:
        return lambda r, found=[]: (r, found), "a default of type builtins.list"

    def of_a_keyword(self) -> Any:
        return lambda r, *, one={}: (r, one), "'one' of type builtins.dict"

    def of_a_partial(self) -> Any:
        return partial(self.got, []), "an argument of type builtins.list"

    def of_a_keyword_of_a_partial(self) -> Any:
        return partial(self.got, item={}), "'item' of type builtins.dict"

    def of_an_object(self) -> Any:
        response = object()
        return lambda r: (r, response), "'response' of type builtins.object"

    def of_a_class(self) -> Any:
        return partial(self.got, Refused), "is not a method of"

    def of_a_variable_that_is_written(self) -> Any:
        left = 2

        def parse(r: Any) -> Any:
            nonlocal left
            left -= 1
            return r

        return parse, "'left', which a function in Refused.of_a_variable_that"

    def of_a_variable_that_another_writes(self) -> Any:
        left = 2

        def write() -> None:
            nonlocal left
            left -= 1

        write()
        return lambda r: (r, left), "'left', which a function in"

    def of_a_variable_that_is_written_further_in(self) -> Any:
        left = 2

        def outer() -> Any:
            def inner() -> None:
                nonlocal left
                left -= 1

            return inner

        outer()()
        return lambda r: (r, left), "'left', which a function in"

    def of_a_partial_with_attributes(self) -> Any:
        function: Any = partial(self.got, 1)
        function.kind = 1
        return function, "is not a method of"

    def of_a_helper_that_writes(self) -> Any:
        left = 2

        def count() -> int:
            nonlocal left
            left -= 1
            return left

        return lambda r: (r, count()), "'left', which a function in"

    def of_a_later_value(self) -> Any:
        following = None

        def parse(r: Any) -> Any:
            return r, following

        yield_here = parse
        following = "/next"
        return yield_here, "'following', to which Refused.of_a_later_value gives"

    def of_a_later_value_in_a_helper(self) -> Any:
        following = None

        def helper(r: Any) -> Any:
            return lambda: (r, following)

        inner = helper(1)
        following = "/next"
        return inner, "'following', to which"

    def of_no_value(self) -> Any:
        if self.name == "":
            later = 1
        return lambda r: (r, later), "'later', which has no value"

    def of_a_decorated_function(self) -> Any:
        @noted
        def parse(r: Any) -> Any:
            return r

        return parse, "is not a method of"

    def of_a_function_with_attributes(self) -> Any:
        def parse(r: Any) -> Any:
            return r

        parse.kind = 1  # type: ignore[attr-defined]
        return parse, "has attributes of its own"

    def of_a_function_with_another_name(self) -> Any:
        def parse(r: Any) -> Any:
            return r

        parse.__name__ = "other"
        return parse, "has attributes of its own"

    def of_annotations(self) -> Any:
        def parse(r: Any, page: int, *, more: int) -> Any:
            return self.got(r, page, more)

        return parse, "an annotation and no default: more, page"

    def of_a_local_class(self) -> Any:
        class Local:
            def parse(self, r: Any) -> Any:
                return r

        return Local.parse, "is not a method of"

    @hidden
    def of_a_method_that_is_hidden(self) -> Any:
        return lambda r: r, "is not a method of"

    def of_the_class(self) -> Any:
        return Refused.attribute[0], "is not a method of"

    def of_an_instance(self) -> Any:
        return Callable_(), "is not a method of"

    def of_another_spider(self) -> Any:
        return Many().of_a_lambda(), "is not a method of"

    def of_the_spider(self) -> Any:
        return partial(self), "is not a method of"

    def of_a_method_of_all_spiders(self) -> Any:
        return partial(self.log, 1), "is not a method of"

    def of_many(self) -> Any:
        function = self.got
        for _ in range(101):
            function = partial(self.got, function)
        return function, "more than 100 functions"

    def __call__(self, response: Any) -> None: ...


@pytest.mark.parametrize("name", [n for n in vars(Refused) if n.startswith("of_")])
def test_any_other_function_is_refused(name: str) -> None:
    spider = Refused()
    callback, words = getattr(spider, name)()
    for request in (Request(URL, callback), Request(URL, errback=callback)):
        with pytest.raises(UnserializableError) as caught:
            Serializer(spider).dump(request)
        assert words in str(caught.value)
        assert words in Serializer(spider).explain(request)


def test_values_that_share_values_are_refused() -> None:
    value: Any = "x"
    for _ in range(40):
        value = (value, value)
    spider = Many()
    with pytest.raises(UnserializableError, match="it has more than 64 MB"):
        Serializer(spider).dump(Request(URL, partial(spider.got, value)))


# Code that has changed


def compiled(source: str, file: str = "a.py", name: str = "a", lines: int = 0) -> Any:
    """Return the spider of a module."""
    module: dict[str, Any] = {"__name__": name, "Spider": Spider}
    text = "\n" * lines + source.format(function="lambda r: (self.name, r, 1)")
    exec(compile(text, file, "exec"), module)  # noqa: S102 - code of this test
    return module["Made"]()


SOURCE = """
class Made(Spider):
    name = "made"
    def make(self):
        return {function}
"""
CHANGED = {
    "code": SOURCE.replace("{function}", "lambda r: (r, self.name, 1)"),
    "constant": SOURCE.replace("{function}", "lambda r: (self.name, r, 2)"),
    "type of a constant": SOURCE.replace("{function}", "lambda r: (self.name, r, 1.0)"),
    "name": SOURCE.replace("{function}", "lambda r: (self.names, r, 1)"),
    "argument": SOURCE.replace("{function}", "lambda s: (self.name, s, 1)"),
    "default": SOURCE.replace("{function}", "lambda r, s=1: (self.name, r, 1)"),
    "method": SOURCE.replace("make", "remake"),
    "class": SOURCE.replace("Made(Spider)", "Renamed(Spider)") + "Made = Renamed",
    "no function": SOURCE.replace("{function}", "1"),
    "text": SOURCE.replace("{function}", 'lambda r: (self.name, r, "1")'),
    "star": SOURCE.replace("{function}", "lambda *r: (self.name, r, 1)"),
    "kind": SOURCE.replace("return {function}", "(yield lambda r: (yield r, 1))"),
}


def test_the_place_of_the_code_does_not_matter() -> None:
    one, moved = compiled(SOURCE), compiled(SOURCE, "b.py", "b", 500)
    payload = Serializer(one).dump(Request(URL, one.make()))
    more = SOURCE.replace("return", "self.more = lambda r: r\n        return")
    for spider in (moved, compiled(more)):
        request: Any = Serializer(spider).load(payload)
        assert request.callback("x") == ("made", "x", 1)


@pytest.mark.parametrize("change", CHANGED)
def test_code_that_has_changed_is_not_run(change: str) -> None:
    one, other = compiled(SOURCE), compiled(CHANGED[change])
    payload = Serializer(one).dump(Request(URL, one.make()))
    with pytest.raises(UnserializableError, match=r"in Made\.make is not there any"):
        Serializer(other).load(payload)


def test_two_classes_of_one_name_are_not_mixed_up() -> None:
    """Their functions are the same, but see other modules."""
    one = compiled(SOURCE)
    module: dict[str, Any] = {"__name__": "b", "Spider": type(one)}
    exec(SOURCE.format(function="lambda r: (self.name, r, 1)"), module)  # noqa: S102
    other = module["Made"]()
    assert back(other, other.make()).__globals__ is module
    with pytest.raises(UnserializableError, match="is not a method of"):
        Serializer(other).dump(Request(URL, type(one).make(other)))


PRINT = """
import sys
from bloomdupe.crawl.requests.nested_code import digest_of_code
module = compile({source!r}, "x.py", "exec")
(code,) = (part for part in module.co_consts if isinstance(part, type(module)))
print(digest_of_code(code).hex())
"""
OFTEN = """
def often(self, r, *, n=(1, "a", 2.5, None)):
    def inner(x=b"x"):
        return [each for each in x if each in {"a", "b", 1, True, "c", (2, "d")}]
    try:
        return inner(), lambda: (self, r, ...), -0.0
    except ValueError:
        return 10**30
"""


def test_a_digest_is_the_same_in_each_process(tmp_path: Path) -> None:
    """Each of the two hashes texts in its own way."""
    script, found = tmp_path / "script.py", []
    for lines in range(2):
        script.write_text(PRINT.format(source="\n" * lines + OFTEN))
        found.append(run_script([script], tmp_path).stdout)
    assert len(found[0]) > 1
    assert found[0] == found[1]


def test_code_that_runs_often_keeps_its_digest() -> None:
    """Python rewrites its instructions then."""
    module: dict[str, Any] = {}
    exec(OFTEN, module)  # noqa: S102 - code of this test
    often = module["often"]
    before = digest_of_code(often.__code__)
    for _ in range(1000):
        often(1, 2)[1]()
    assert digest_of_code(often.__code__) == before


# Bytes of other people


@pytest.fixture(scope="module")
def stored() -> list[Any]:
    """Return the elements of a request with a lambda."""
    spider = Many()
    payload = Serializer(spider).dump(Request(URL, spider.of_a_lambda()))
    elements: list[Any] = msgpack.unpackb(payload, strict_map_key=False)
    return elements


def load(stored: list[Any], name: object, reference: object) -> Any:
    others = {CALLBACK: name, FUNCTIONS: {CALLBACK: reference}}
    payload = msgpack.packb([*stored[:4], others])
    return Serializer(Many()).load(payload).callback


LAMBDA = "Many.of_a_lambda.<lambda>"


def test_a_reference_is_a_list(stored: list[Any]) -> None:
    """A form that stores of this version have, so it must stay."""
    others = stored[4]
    kind, method, digest, *values = others[FUNCTIONS][CALLBACK]
    assert others[CALLBACK] == LAMBDA
    assert (kind, method, values) == (3, "Many.of_a_lambda", [[], {}, ["books", [0]]])
    assert digest == digest_of_code(Many().of_a_lambda().__code__)
    assert load(stored, LAMBDA, others[FUNCTIONS][CALLBACK])("x")[1:] == ("x", "books")


def code(function: Any) -> bytes:
    return digest_of_code(function.__code__)


HOSTILE: dict[str, tuple[str, Any]] = {
    "spider": ("None", [0]),
    "partial of the spider": ("partial(None)", [2, [0], [], {}]),
    "method of all spiders": ("partial(close)", [2, [1, "close"], [], {}]),
    "constructor": ("partial(__init__)", [2, [1, "__init__"], [], {}]),
    "class": ("partial(os.system)", [2, "os.system", ["true"], {}]),
    "another name": ("got", [2, [1, "got"], [], {}]),
    "the method itself": (LAMBDA, [3, "Many.got", code(Many.got), [], {}, []]),
    "a method of Scrapy's": (
        LAMBDA,
        [3, "Spider.start", code(Spider.start), [], {}, []],
    ),
    "a module's function": (LAMBDA, [3, "noted", code(noted), [], {}, []]),
    "another method": (LAMBDA, [3, "Many.of_defaults", None, [], {}, []]),
    "no digest": (LAMBDA, [3, "Many.of_a_lambda", b"", [], {}, ["x", [0]]]),
    "list as digest": (LAMBDA, [3, "Many.of_a_lambda", [], [], {}, ["x", [0]]]),
    "closure too short": (LAMBDA, [3, "Many.of_a_lambda", ..., [], {}, ["x"]]),
    "closure too long": (LAMBDA, [3, "Many.of_a_lambda", ..., [], {}, ["x", [0], 1]]),
    "too many defaults": (
        LAMBDA,
        [3, "Many.of_a_lambda", ..., [1, 2], {}, ["x", [0]]],
    ),
    "map": (LAMBDA, [3, "Many.of_a_lambda", ..., [], {}, [{"a": 1}, [0]]]),
    "keywords by number": (LAMBDA, [2, [1, "got"], [], {1: 2}]),
    "no such function": (LAMBDA, [4, 0]),
    "kind": (LAMBDA, [9]),
    "list as kind": (LAMBDA, [[]]),
    "empty": (LAMBDA, []),
    "text": (LAMBDA, "got"),
    "nothing": (LAMBDA, None),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_bytes_name_nothing_else(case: str, stored: list[Any]) -> None:
    name, reference = HOSTILE[case]
    if type(reference) is list and ... in reference:
        digest = stored[4][FUNCTIONS][CALLBACK][2]
        reference = [digest if part is ... else part for part in reference]
    with pytest.raises(UnserializableError):
        load(stored, name, reference)


def test_code_of_a_generator_expression_is_no_function(stored: list[Any]) -> None:
    code = Many().letters().gi_code
    reference = [3, "Many.letters", digest_of_code(code), [], {}, []]
    with pytest.raises(UnserializableError, match="is not there any more"):
        load(stored, "Many.letters.<genexpr>", reference)


class Theirs(Spider):
    """A spider of Scrapy's, it says."""

    __module__ = "scrapy.spiders.theirs"

    def of_a_lambda(self) -> Any:
        return lambda r: r


class Mine(Theirs):
    name = "mine"


def test_functions_of_scrapys_own_spiders_are_refused() -> None:
    spider = Mine()
    with pytest.raises(UnserializableError, match="is not a method of"):
        Serializer(spider).dump(Request(URL, spider.of_a_lambda()))


def test_deep_references_are_refused(stored: list[Any]) -> None:
    deep: Any = [1, "got"]
    for _ in range(400):
        deep = [2, deep, [], {}]
    with pytest.raises(UnserializableError, match="more than 100 references"):
        load(stored, LAMBDA, deep)
    with pytest.raises(UnserializableError, match="more than 100 references"):
        load(stored, LAMBDA, [2, [1, "got"], [[1, "got"]] * 1000, {}])


def test_no_function_has_a_variable_that_is_written(stored: list[Any]) -> None:
    spider = Refused()
    parse, _ = spider.of_a_variable_that_is_written()
    method = "Refused.of_a_variable_that_is_written"
    others = {
        CALLBACK: f"{method}.parse",
        FUNCTIONS: {CALLBACK: [3, method, code(parse), [], {}, [2]]},
    }
    payload = msgpack.packb([*stored[:4], others])
    with pytest.raises(UnserializableError, match="is stored like this"):
        Serializer(spider).load(payload)


@pytest.mark.parametrize("value", [7, [1], "x"])
def test_garbage_in_the_place_of_references_is_refused(
    value: object, stored: list[Any]
) -> None:
    others = {CALLBACK: LAMBDA, FUNCTIONS: value}
    with pytest.raises(UnserializableError):
        Serializer(Many()).load(msgpack.packb([*stored[:4], others]))


@pytest.mark.parametrize("name", MAKERS)
def test_an_earlier_version_refuses_the_request_by_name(name: str) -> None:
    """It reads the callback as the name of a method, and nothing else of it."""
    spider = Many()
    payload = Serializer(spider).dump(Request(URL, made(spider, name)))
    shown = summary_of(payload).callback
    assert shown is not None
    with pytest.raises(
        TypeError, match=r"the spider has no method '(partial|Many|Base)"
    ):
        Callbacks(spider).method(shown)


def test_requests_that_could_be_stored_before_have_the_same_bytes() -> None:
    spider = Many()
    request = Request(URL, spider.got, errback=spider.got, cb_kwargs={"a": 1})
    payload = Serializer(spider).dump(request)
    assert payload.hex() == (
        "95ab04612e6578616d706c652fc0c0c0830c81a1610101a3676f7402a3676f74"
    )


# Identities


def test_functions_of_one_name_are_told_apart() -> None:
    """By code, defaults, closure and arguments, in any order of the children."""

    class Two(Many):
        def functions(self, value: Any) -> list[Any]:
            return [
                lambda r: self.got(r, value),
                lambda r: self.got(value, r),
                lambda r, v=value: self.got(r, v),
                lambda r, *, v=value: self.got(r, v),
                partial(self.got, value),
                partial(self.got, v=value),
                partial(self.parse, value),
            ]

    spider = Two()
    requests = [
        Request(URL, each, dont_filter=True)
        for value in (1, 2)
        for each in spider.functions(value)
    ]
    again = [Serializer(spider).load(Serializer(spider).dump(r)) for r in requests]
    identities = [identity_of(request, b"x") for request in requests]
    assert len(set(identities)) == len(requests)
    assert [identity_of(request, b"x") for request in again] == identities

    def same(request: Request, other: Request) -> bool:
        return is_once_more(request, b"x", other, lambda _: b"x")

    assert all(map(same, requests, again))
    assert not same(requests[0], requests[1])
    assert not same(requests[0], requests[7])
    for other_page in (b"w", b"y"):
        assert not is_once_more(requests[0], other_page, again[0], lambda _: b"x")


class Alike(Spider):
    """Its methods have names of which some do not tell them from others."""

    name = "alike"
    one = hidden(Base.got)
    two = hidden(Base.got)

    def parse_page(self, _: Any) -> Any:
        return "page"

    @staticmethod
    def of_no_object(_: Any) -> Any:
        return "static"


class Overridden(Alike):
    def parse_page(self, response: Any) -> Any:
        return super().parse_page, response


class Part:
    """An object beside the spider."""

    def parse_page(self, _: Any) -> Any:
        return "part"


def test_methods_of_one_name_are_told_apart() -> None:
    spider = Overridden()
    inherited, _ = spider.parse_page(None)
    callbacks = [
        spider.one,
        spider.two,
        spider.parse_page,
        inherited,
        Part().parse_page,
        spider.of_no_object,
        *(FunctionType(noted.__code__, {"__name__": name}) for name in "ab"),
    ]
    requests = [Request(URL, each, dont_filter=True) for each in callbacks]
    assert len({identity_of(each, b"x") for each in requests}) == len(requests)
    same = [
        is_once_more(request, b"x", requests[0], lambda _: b"x") for request in requests
    ]
    assert same == [True, *[False] * 7]


EARLIER = [
    "9e9110a4477892d7aa15ee317c670628",
    "37fa410c905bcc9d34bd70322bd2036c",
    "86885950b981596d356e0eb496b09a97",
]


def test_identities_of_most_callbacks_are_those_of_earlier_versions() -> None:
    callbacks: list[Any] = [
        Many().got,
        Alike().parse_page,
        partial(Many().got, 1),
    ]
    found = [
        identity_of(Request(URL, each, dont_filter=True), b"").hex()
        for each in callbacks
    ]
    assert found == EARLIER


def test_an_attribute_of_the_spider_that_changes_does_not_name_a_callback() -> None:
    spider: Any = Alike()
    spider.callback = spider.parse_page
    payload = Serializer(spider).dump(Request(URL, spider.callback))
    spider.callback = spider.one
    assert Serializer(spider).load(payload).callback == spider.parse_page


def test_a_method_that_is_hidden_by_an_attribute_is_not_mixed_up_with_it() -> None:
    spider: Any = Alike()
    hidden_by_it = spider.parse_page
    spider.parse_page = spider.one
    with pytest.raises(UnserializableError, match="is not a method of"):
        Serializer(spider).dump(Request(URL, hidden_by_it))


def test_a_method_of_the_object_alone_has_the_name_of_its_attribute() -> None:
    spider: Any = Alike()
    spider.made = MethodType(lambda _, response: response, spider)
    request: Any = Serializer(spider).load(
        Serializer(spider).dump(Request(URL, spider.made))
    )
    assert request.callback("x") == "x"
