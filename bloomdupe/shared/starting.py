"""StartOutputs: the output of ``Spider.start()``, on every worker of a crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request

from bloomdupe.crawl.state.start_items import StartItem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bloomdupe.inside_scrapy.processing import Processing

__all__ = ["StartOutputs"]


class StartOutputs:
    """Recognizes start requests, and numbers the items of ``start()``."""

    def __init__(self, processing: Processing) -> None:
        self._processing = processing
        self._request: Request | None = None
        self._items = 0

    async def watch(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass the output of ``Spider.start()`` on to the engine, and remember it."""
        async for output in outputs:
            self._request = None
            if isinstance(output, Request):
                self._request = output
                self._processing.works_on(None)
            else:
                # The engine processes the item in this very task.
                self._processing.works_on(StartItem(self._items))
                self._items += 1
            yield output

    def takes(self, request: Request) -> bool:
        """Whether ``start()`` has yielded this object last; True once only."""
        if request is not self._request:
            return False
        self._request = None
        return True
