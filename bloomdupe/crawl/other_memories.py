"""OtherMemories: warns of components that remember done pages, and so lose items.

Such a component writes at once to a database of its own, and does not know of
checkpoints. If the process is killed between that and our commit, the page runs again,
and its items are dropped as known: they are missing in the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.leases.lease import Lease
from bloomdupe.inside_scrapy.engine import spider_middlewares
from bloomdupe.inside_scrapy.work import current_work
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

logger = logger_of(__name__)

KNOWN = {"scrapy_deltafetch.middleware.DeltaFetch"}
"""Spider middlewares of other packages that write at once what was done."""

REMEDY = (
    "A component that records its items when bloomdupe.signals.checkpoint is sent, each"
    " with its page, loses nothing: see crawler/known.py in bloomdupe's repository"
)


class OtherMemories:
    """An extension that warns of components with a memory of their own.

    It names known components at the start. Unknown components are noticed when they
    drop an item of a page that runs again after a crash: it warns once, and
    ``bloomdupe/dropped_again`` counts the items.
    """

    def __init__(self, crawler: Crawler, stats: StatsCollector) -> None:
        self._crawler = crawler
        self._stats = stats
        self._warned = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl, if it has a JOBDIR."""
        if not crawler.settings["JOBDIR"] or crawler.stats is None:
            raise NotConfigured
        extension = cls(crawler, crawler.stats)
        connect = crawler.signals.connect
        connect(extension.spider_opened, signals.spider_opened)
        connect(extension.item_dropped, signals.item_dropped)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        """Look for known components; called by Scrapy."""
        for name in _components(self._crawler):
            logger.warning(
                "%(name)s records an item as soon as it has seen it, in a database of"
                " its own: if the process is killed, it may drop items that are in no"
                " output. %(remedy)s.",
                {"name": name, "remedy": REMEDY},
                extra={"spider": spider},
            )

    def item_dropped(self, exception: BaseException, spider: Spider) -> None:
        """Count a dropped item of a page that runs again; called by Scrapy."""
        work = current_work()
        if not (isinstance(work, Lease) and work.root.repeated):
            return
        self._stats.inc_value("bloomdupe/dropped_again")
        if self._warned:
            return
        self._warned = True
        logger.warning(
            "An item was dropped by a pipeline (%(reason)s) on a page that may run"
            " again because the last run was killed. If the pipeline drops items that a"
            " database of its own knows, and has recorded this item there before the"
            " kill, the item is in no output. %(remedy)s. More such items are only"
            " counted, in the stat bloomdupe/dropped_again.",
            {"reason": exception, "remedy": REMEDY},
            extra={"spider": spider},
        )


def _components(crawler: Crawler) -> list[str]:
    """Return the names of the known components that are in use."""
    names = {
        global_object_name(class_)
        for middleware in spider_middlewares(crawler)
        for class_ in type(middleware).__mro__
    }
    return sorted(names & KNOWN)
