"""Callbacks that are no methods: partials of methods, and functions that stay here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http.request import NO_CALLBACK

from bloomdupe.errors import UnserializableError
from bloomdupe.requests.serializer import Serializer

URL = "http://a.example/"


class Base(Spider):
    """A base class of spiders."""

    name = "base"

    def got(self, response: Any, *args: Any, **kwargs: Any) -> Any:
        return (self.name, response, *args, *kwargs.items())


class Many(Base):
    name = "many"


PARTIALS_OF_METHODS: list[Callable[[Many], Any]] = [
    lambda spider: partial(spider.got, 1, "two", part=(3, None)),
    lambda spider: partial(partial(spider.got, 1), part=2),
    lambda spider: partial(spider.got, frozenset("ab")),
    lambda spider: partial(spider.parse),
    lambda spider: partial(NO_CALLBACK),
]


@pytest.mark.parametrize("made", PARTIALS_OF_METHODS)
def test_a_partial_of_a_method_comes_back(made: Callable[[Many], Any]) -> None:
    spider, other = Many(), Many(name="other")
    request = Request(URL, made(spider), errback=made(spider))
    payload = Serializer(spider).dump(request)
    again: Any = Serializer(other).load(payload)
    for function in (again.callback, again.errback):
        wanted = made(other)
        assert (function.func, function.args, function.keywords) == (
            wanted.func,
            wanted.args,
            wanted.keywords,
        )
    assert Serializer(other).dump(again) == payload


# Functions that are not stored


class Refused(Base):
    """Callbacks that cannot be stored, each with the words that say why."""

    def of_a_lambda(self) -> Any:
        return lambda r: self.got(r), "use a method of the spider"  # noqa: PLW0108 - a lambda is the point

    def of_a_function(self) -> Any:
        def parse(r: Any, page: int = 1) -> Any:
            return self.got(r, page)

        return parse, "values in cb_kwargs"

    def of_a_list(self) -> Any:
        return partial(self.got, []), "an argument of type builtins.list: give it"

    def of_a_method(self) -> Any:
        return partial(self.got, self.got), "an argument of type builtins.method"

    def of_a_partial_with_attributes(self) -> Any:
        function: Any = partial(self.got, 1)
        function.kind = 1
        return function, "is not a method of"

    def of_a_method_that_an_attribute_hides(self) -> Any:
        method, self.got = self.got, self.parse  # type: ignore[assignment,method-assign]
        return method, "is not a method of"

    def of_another_spider(self) -> Any:
        return Many().got, "is not a method of"


@pytest.mark.parametrize("name", [n for n in vars(Refused) if n.startswith("of_")])
def test_any_other_function_is_refused(name: str) -> None:
    spider = Refused()
    callback, words = getattr(spider, name)()
    for request in (Request(URL, callback), Request(URL, errback=callback)):
        with pytest.raises(UnserializableError) as caught:
            Serializer(spider).dump(request)
        assert words in str(caught.value)


def test_an_attribute_of_the_spider_that_changes_does_not_name_a_callback() -> None:
    spider: Any = Many()
    spider.callback = spider.got
    payload = Serializer(spider).dump(Request(URL, spider.callback))
    spider.callback = spider.parse
    assert Serializer(spider).load(payload).callback == spider.got
