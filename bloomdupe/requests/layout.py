"""Layout of a stored request, and what can be read of it without Scrapy.

A payload is a msgpack array of these elements. Nil stands for the default, and the last
elements are left out while they are nil:

============== =======================================================================
element        content
============== =======================================================================
url
depth          ``meta["depth"]``
common         Referer, if it is the last of the headers: length of its common prefix
               with the URL
rest           the rest of the Referer, if there is any
callback       0 means ``NO_CALLBACK``; a list is a partial: method, arguments, keywords
meta           the rest of it
cb_kwargs
dont_filter
priority       the nearest within 64 bits
errback        as the callback
headers        without the Referer above
method
body
cookies
flags
encoding
class_name     nil means ``scrapy.Request``
state          attributes that a subclass has added
visit          visits of a page that is revisited, see :class:`Visit`
============== =======================================================================
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]

from bloomdupe.errors import UnserializableError
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = (
    "url", "depth", "common", "rest", "callback", "meta", "cb_kwargs", "dont_filter",
    "priority", "errback", "headers", "method", "body", "cookies", "flags", "encoding",
    "class_name", "state", "visit",
)  # fmt: skip
"""Elements of a stored request, in this order."""

_FULL = bytes((0xDC, 0, len(NAMES)))
"""First bytes of a stored request with a visit."""


def url_of(payload: bytes) -> str:
    """Return the URL of a stored request, even if it cannot be restored.

    It is meant for a message: characters that could break a line are escaped.
    """
    try:
        unpacker = msgpack.Unpacker(unicode_errors="surrogatepass")
        unpacker.feed(payload)
        unpacker.read_array_header()
        url = str(unpacker.unpack())
    except Exception:  # noqa: BLE001 - any damage: the message must not fail
        url = ""
    return printable(url) or f"{len(payload):,} bytes"


def fields_of(
    payload: bytes, ext_hook: Callable[[int, bytes], Any] = msgpack.ExtType
) -> dict[str, Any]:
    """Return those elements by name that are not nil.

    Values of types that msgpack lacks are made by a hook.
    """
    elements = unpacked(payload, ext_hook)
    if not isinstance(elements, list) or not 0 < len(elements) <= len(NAMES):
        raise UnserializableError("it is no request")
    if not isinstance(elements[0], str) or not elements[0]:
        raise UnserializableError("it has no URL")
    named = zip(NAMES, elements)  # noqa: B905 - with strict it is slower
    return {name: value for name, value in named if value is not None}


def changed(payload: bytes, **fields: object) -> bytes:
    """Return a stored request with other values of these elements.

    Neither request nor values are made.
    """
    elements = unpacked(payload)
    elements += [None] * (len(NAMES) - len(elements))
    for name, value in fields.items():
        elements[NAMES.index(name)] = value
    while elements[-1] is None:
        elements.pop()
    packed: bytes = msgpack.packb(elements, unicode_errors="surrogatepass")
    return packed


def unpacked(
    data: bytes, ext_hook: Callable[[int, bytes], Any] = msgpack.ExtType
) -> Any:
    """Return what was packed; raises :class:`UnserializableError`."""
    try:
        return msgpack.unpackb(
            data,
            ext_hook=ext_hook,
            strict_map_key=False,
            unicode_errors="surrogatepass",
        )
    except (msgpack.ExtraData, msgpack.FormatError, msgpack.StackError) as error:
        raise UnserializableError(
            f"bloomdupe has not stored these bytes: {error}"
        ) from error
    except Exception as error:  # of the data, or what is named in it
        raise UnserializableError(str(error) or type(error).__name__) from error


@dataclass(frozen=True)
class Visit:
    """A page after its last visit; the payload of its next request carries it.

    It also carries the data that a retry or redirect inherits from the request before
    it. In the payload it is a list of the attributes, in this order. It is the last
    element and not a part of the request, so that a request made with a copy of its
    ``meta`` does not inherit it.
    """

    known: bool = False
    """Whether a visit has found the page."""
    rule: float | None = None
    """The rule of the first request, if this is the target of its redirect."""
    origin: bytes | None = None
    """This first request, as a payload."""
    renewed: bool = False
    """Whether its revisits begin even if they did before: the user asked for it,
    and no other visit is pending.
    """
    failure: bytes | None = None
    """Key of the failed request that is retried, see
    :mod:`bloomdupe.crawl.state.failures`."""
    forced: bool = False
    """Whether the request was accepted though it was seen: so are its redirects."""

    @classmethod
    def of(cls, payload: bytes | None) -> Visit:
        """Return the visit in a payload; without any, the one before the first."""
        if not payload or payload[:3] != _FULL:
            return cls()
        with suppress(UnserializableError, TypeError):  # or it is damaged
            visit = cls(*unpacked(payload)[-1])
            if isinstance(visit.failure, bytes | None):
                return visit
        return cls()

    def added_to(self, payload: bytes) -> bytes:
        """Return a payload with its visit replaced by this one."""
        return changed(payload, visit=astuple(self))
