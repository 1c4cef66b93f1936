"""Subclasses of ``Request``: their attributes, and how to make a request again.

The constructor of the subclass makes it from all attributes, as ``Request.replace()``
does. It gets the defaults of a plain request, too, because a subclass may have
different defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import Headers

from bloomdupe.crawl.requests.objects import loaded_class
from bloomdupe.crawl.requests.values import pack

if TYPE_CHECKING:
    from collections.abc import Iterable

_OF_ALL = frozenset(
    {
        *getattr(Request("data:,"), "__dict__", ()),
        *(name for one in Request.__mro__ for name in getattr(one, "__slots__", ())),
    }
)
"""Attributes of every request; later versions of Scrapy keep them in slots."""


def is_scrapys(class_: type[Request]) -> bool:
    """Whether the class is part of Scrapy; such classes do not change a request."""
    return class_.__module__.startswith("scrapy.")


def own_attributes_of(class_: type[Request]) -> list[str]:
    """Return the attributes that a subclass of ``Request`` has added."""
    return [name for name in class_.attributes if name not in Request.attributes]


def extras_of(request: Request) -> dict[str, Any]:
    """Return the state of a subclass that its ``attributes`` do not name.

    Scrapy's own copies, by ``replace()`` and ``to_dict()``, leave it out.
    """
    named = {*type(request).attributes}
    return {
        name: value
        for name, value in getattr(request, "__dict__", {}).items()
        if name not in _OF_ALL and name not in named and name.lstrip("_") not in named
    }


def made_again(
    name: str, values: dict[str, Any], own: dict[str, Any], extras: dict[str, Any]
) -> Request:
    """Return a request of the class of this name.

    ``values`` are the differences from a plain request, ``own`` its own attributes.
    Raises :class:`TypeError` if it cannot be such a request, and the errors of its
    constructor.
    """
    class_ = loaded_class(name)
    if not issubclass(class_, Request):
        raise TypeError(f"{name} is not a subclass of Request")
    if not {*own} <= {*own_attributes_of(class_)}:
        raise TypeError(f"{name} has other attributes by now")
    if extras and (class_ is Request or not _may_be_extras(extras, class_)):
        raise TypeError("it would set attributes that are not a subclass's own")
    request = _constructed(class_, values | own)
    # Its constructor may add headers that were removed since.
    request.headers = Headers(values.get("headers"), encoding=request.encoding)
    if extras:
        vars(request).update(extras)  # no property runs
    return request


def _may_be_extras(names: Iterable[str], class_: type[Request]) -> bool:
    """Whether a store may set these: neither code nor what every request has."""
    return _OF_ALL.isdisjoint(names) and not any(
        name[:2] == "__" or callable(getattr(class_, name, None)) for name in names
    )


def _constructed(class_: type[Request], given: dict[str, Any]) -> Request:
    plain: dict[str, Any] = {
        "callback": None,
        "errback": None,
        "method": "GET",
        "headers": {},
        "body": b"",
        "cookies": {},
        "meta": {},
        "encoding": "utf-8",
        "priority": 0,
        "dont_filter": False,
        "flags": [],
        "cb_kwargs": {},
    }
    try:
        return class_(**(plain | given))
    except TypeError:  # it does not take all of them
        return class_(**given)


def differences(one: Request, other: Request) -> list[str]:
    """Return the attributes in which two requests of a class differ."""
    names = [
        name
        for name in type(one).attributes
        if not _same(getattr(one, name), getattr(other, name))
    ]
    extras = extras_of(one), extras_of(other)
    return names + [
        name
        for name in dict.fromkeys([*extras[0], *extras[1]])
        if not _same(extras[0].get(name), extras[1].get(name))
    ]


def _same(one: object, other: object) -> bool:
    """Whether two values are equal, or look the same where they are stored."""
    try:
        return bool(one is other or one == other or pack(one) == pack(other))
    except Exception:  # noqa: BLE001 - of any object's code: it is not stored then
        return False
