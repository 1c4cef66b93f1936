"""SpiderState: ``spider.state`` as of the last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.extensions.spiderstate import SpiderState as ScrapysSpiderState

from bloomdupe.errors import UnserializableError
from bloomdupe.inside_scrapy.private_names import SPIDER_STATE, is_on
from bloomdupe.printable import logger_of
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from bloomdupe.requests.serializer import Serializer

logger = logger_of(__name__)

STATE = "state"
"""Its name in the table ``blobs``."""


class SpiderState(Participant):
    """Keeps ``spider.state`` in the store.

    Scrapy's extension of the same name still writes ``JOBDIR/spider.state`` when the
    crawl stops. The state in the store is at least as new, and the next run uses it. A
    state that cannot be stored is left to Scrapy, and a warning says so.

    It is packed for each checkpoint, to see whether it has changed: as attributes are,
    see :class:`bloomdupe.crawl.state.attributes.SpiderAttributes`.
    """

    def __init__(self, crawler: Crawler, serializer: Serializer) -> None:
        self._crawler = crawler
        self._serializer = serializer
        self._restored: Any = None
        self._stored: bytes | None = None
        self._warned = False

    def restore(self, packed: bytes | None) -> None:
        """Give the spider the state that was stored, if any was.

        Raises :class:`UnserializableError` if it cannot be read.
        """
        if packed is None:
            return
        self.read_again(packed)
        scrapys = self._crawler.get_extension(ScrapysSpiderState)
        if type(scrapys) is ScrapysSpiderState and is_on(SPIDER_STATE):
            # A run that died while it wrote JOBDIR/spider.state has left half of it,
            # which cannot be read.
            opened = scrapys.spider_opened
            self._crawler.signals.disconnect(opened, signals.spider_opened)
        else:  # it was connected first, so ours runs last
            self._crawler.signals.connect(self._put, signals.spider_opened)

    def read_again(self, packed: bytes | None) -> None:
        """Give the spider the stored state in the place of its present one."""
        try:
            self._restored = (
                {} if packed is None else self._serializer.load_value(packed)
            )
        except UnserializableError as error:
            raise UnserializableError(
                f"the stored spider.state cannot be read: {error}. Put the job back"
                " from a backup"
            ) from error
        self._stored = packed
        self._put()

    def _put(self) -> None:
        self._crawler.spider.state = self._restored  # type: ignore[union-attr]

    def prepare(self) -> Part:
        """Return the state for the next checkpoint: nothing, if it has not changed."""
        packed = self._pack()
        if packed == self._stored:
            return Part()

        def done() -> None:
            self._stored = packed

        if packed is None:
            return Part(gone=(STATE,), done=done)
        return Part(blobs={STATE: packed}, done=done)

    @property
    def changed(self) -> bool:
        """Whether the state differs from the stored state."""
        return self._pack() != self._stored

    def _pack(self) -> bytes | None:
        """Return the state as bytes; None if there is none, or it cannot be stored."""
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


def leave_scrapys_file(crawler: Crawler, failed: Callable[[], bool]) -> None:
    """Keep Scrapy from writing ``JOBDIR/spider.state`` until the spider is open.

    When a crawl fails to open, Scrapy would empty the file first, and only then find
    that the spider has no state yet: the next run would have no state, either. When a
    crawl has ``failed``, the last checkpoint is valid, and later changes must not get
    into the file. The spider may change the working directory before the end.
    """
    extension = crawler.get_extension(ScrapysSpiderState)
    if extension is None or not is_on(SPIDER_STATE):
        return
    if extension.jobdir:
        extension.jobdir = str(Path(extension.jobdir).absolute())
    close = extension.spider_closed
    crawler.signals.disconnect(close, signals.spider_closed)

    def opened() -> None:
        crawler.signals.connect(closed, signals.spider_closed, weak=False)

    def closed(spider: Spider) -> None:
        if not failed():
            close(spider)

    # There is no other reference to these functions.
    crawler.signals.connect(opened, signals.spider_opened, weak=False)
