"""ensure_awaitable: Scrapy's function of this name, faster for most answers.

Each call of a downloader middleware returns None, a response or a request, mostly.
Scrapy looks whether that is awaitable, and defines a function to make it so: 1.5 µs,
fifteen times a page. All other answers take the usual way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse

from bloomdupe.inside_scrapy import helpers

if TYPE_CHECKING:
    from collections.abc import Awaitable

_TYPES = {type(None), Request, Response, TextResponse, HtmlResponse, XmlResponse}
scrapys_ensure_awaitable: Any = helpers.ensure_awaitable


def ensure_awaitable(o: object, *more: object, **given: object) -> Awaitable[Any]:
    """Return an awaitable with the result of Scrapy's function of this name."""
    if type(o) in _TYPES:
        return _ready(o)
    return scrapys_ensure_awaitable(o, *more, **given)  # type: ignore[no-any-return]


async def _ready(o: object) -> object:
    return o
