"""SpiderState: ``spider.state``, as of the last checkpoint."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals

from bloomdupe.errors import UnserializableError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from bloomdupe.serializer import Serializer

__all__ = ["SpiderState"]

logger = logging.getLogger(__name__)


class SpiderState:
    """Keeps ``spider.state`` in the store.

    Scrapy's own extension of that name goes on writing ``JOBDIR/spider.state`` when
    the crawl stops; what is in the store is newer, or the same, and wins. A state
    that cannot be stored is left to Scrapy, and a warning says so.
    """

    def __init__(self, crawler: Crawler, serializer: Serializer) -> None:
        self._crawler = crawler
        self._serializer = serializer
        self._packed: bytes | None = None
        self._restored: Any = None
        self._warned = False

    def restore(self, packed: bytes | None) -> None:
        """Give the spider the state that was stored, if any was.

        Raises :class:`UnserializableError` if it cannot be read.
        """
        self._packed = packed
        if packed is None:
            return
        self._restored = self._serializer.load_value(packed)
        self._put()
        # Scrapy's extension was connected before, so ours is the last word.
        self._crawler.signals.connect(self._put, signals.spider_opened)

    def _put(self) -> None:
        self._crawler.spider.state = self._restored  # type: ignore[union-attr]

    @property
    def changed(self) -> bool:
        """Whether the state is another one than was packed last."""
        return self._pack() != self._packed

    def pack(self) -> bytes | None:
        """Return the state as it is to be stored; None if there is none."""
        self._packed = self._pack()
        return self._packed

    def _pack(self) -> bytes | None:
        state = getattr(self._crawler.spider, "state", None)
        if state is None:
            return None
        try:
            return self._serializer.dump_value(state)
        except UnserializableError as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "spider.state cannot be stored with the checkpoints, so after a"
                    " crash it is as it was when the crawl last stopped in good order:"
                    " %(reason)s",
                    {"reason": error},
                    extra={"spider": self._crawler.spider},
                )
            return None
