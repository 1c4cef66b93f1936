"""Items of several kinds, of which the first has fewer fields."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from spiders.feeds import Shop, Special


class Uneven(Shop):
    """A page has an item with two fields, another kind of item, and items with more."""

    name = "uneven"

    async def parse(self, response: Any) -> Any:
        path = urlsplit(response.url).path[1:]
        yield {"path": path, "number": 0}
        yield Special(path)
        async for output in super().parse(response):
            yield output
