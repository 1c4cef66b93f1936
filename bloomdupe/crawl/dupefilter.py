"""BloomDupeFilter: the filter in Scrapy's DUPEFILTER_CLASS slot."""

from __future__ import annotations

from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.request import referer_str

from bloomdupe.crawl.engines.crawl_job import CrawlJob
from bloomdupe.crawl.progress.rounds import VERSIONS, versions_here
from bloomdupe.crawl.retries import is_start
from bloomdupe.errors import StoreError, StoreMismatchError
from bloomdupe.filter.layer import most_memory
from bloomdupe.inside_scrapy.engine import fail_crawl, opening
from bloomdupe.links.fingerprint import fingerprint_function
from bloomdupe.links.link_filter import Duplicate, attach_link_filter
from bloomdupe.printable import logger_of, near
from bloomdupe.store.format import QUEUE
from bloomdupe.store.system_errors import reason_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.store.store import Store

logger = logger_of(__name__)

LATER = frozenset({"retry_times", "redirect_times", "download_latency"})
"""Keys of ``meta`` of requests that follow a response or a failure."""


class BloomDupeFilter(BaseDupeFilter):
    """Drops requests with a fingerprint that was seen before.

    With ``JOBDIR`` the fingerprints are kept in ``JOBDIR/bloomdupe`` and survive the
    process; without it they stay in memory, as with Scrapy's own filter.

    With Scrapy's own scheduler it writes its own checkpoints. Unlike Scrapy's filter,
    it also marks start requests with ``dont_filter``, so that a link back to the start
    page is a duplicate, and a later run skips those that an earlier run has scheduled.
    :class:`bloomdupe.FrontierScheduler` *shares* it, and decides itself what is marked,
    written and skipped.
    """

    def __init__(self, crawler: Crawler) -> None:
        spider, stats = crawler.spider, crawler.stats
        fingerprinter = crawler.request_fingerprinter
        if spider is None or stats is None or fingerprinter is None:
            raise RuntimeError("the crawler has no spider yet")
        self._crawler = crawler
        self._job = CrawlJob.of(spider, crawler.settings)
        self._fingerprint = fingerprint_function(fingerprinter)
        self._stats = stats
        self._interval = self._job.settings.checkpoint_interval
        self._due = 0.0
        self._filter: BloomFilter | None = None
        self._shared = False
        self._failed = False
        self._skip_starts = False
        self._logged = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the filter of a crawl from its settings."""
        return cls(crawler)

    def open(self) -> None:
        """Open or create the store; raises the errors of :meth:`BloomFilter.open`."""
        with opening(self._crawler), ExitStack() as undo:
            filter_ = self._job.open_filter()
            undo.callback(filter_.close)
            if filter_.store is not None:
                self._check_frontier(filter_.store)
                self._restore(filter_)
                logger.warning(
                    "SCHEDULER is %(scheduler)s, which keeps pending requests by"
                    " itself: after a crash pages and items may be missing, or come"
                    ' twice. Only SCHEDULER = "bloomdupe.FrontierScheduler" is safe'
                    " against that.",
                    {"scheduler": self._crawler.settings["SCHEDULER"]},
                )
            undo.pop_all()
        self._filter = filter_
        self._crawler.signals.connect(self.mark_scheduled, signals.request_scheduled)
        self._due = monotonic() + self._interval
        self._log_opened(filter_)
        if type(self) is BloomDupeFilter:
            attach_link_filter(self._crawler, self._would_drop, self.report)

    def share(self, filter_: BloomFilter) -> None:
        """Use the filter of a scheduler that makes the checkpoints, and closes it."""
        self._shared = True
        self._filter = filter_
        self._log_opened(filter_)

    def _would_drop(self, request: Request) -> Duplicate:
        """Whether Scrapy's scheduler would drop a request; for the link filter."""
        key, exact = self.key_of(request)
        seen = self._filter is not None and self._filter.contains(key, exact=exact)
        return Duplicate.ALL if seen else Duplicate.NO

    def key_of(self, request: Request) -> tuple[bytes, bool]:
        """Return a request's fingerprint, and whether it is exact."""
        exact = self._job.settings.exact.match(request.url)
        return self._fingerprint(request), exact

    def _check_frontier(self, store: Store) -> None:
        """Refuse a store with pending requests that Scrapy's scheduler cannot see."""
        with store.snapshot() as snapshot:
            pending = snapshot.entries(QUEUE)
        if pending:
            raise StoreMismatchError(
                f"JOBDIR: in {self._job.settings.directory} {pending:,}"
                " requests are pending that only bloomdupe.FrontierScheduler can see:"
                ' set SCHEDULER = "bloomdupe.FrontierScheduler" again, or give the new'
                " crawl another JOBDIR"
            )

    def _restore(self, filter_: BloomFilter) -> None:
        """Check how the last run of the job ended, and record the new run."""
        last = filter_.notes.get("run")
        if last == "open":
            logger.error(
                "The last run of the job in %(directory)s was killed. Scrapy's own"
                " scheduler keeps no account of pending requests then: pages that"
                " were pending may be missing, and their URLs count as seen. To be"
                " sure of every page, move the job directory away and start anew.",
                {"directory": self._job.settings.directory},
            )
        # After a kill the queue is lost, and the start page is all there is.
        self._skip_starts = last not in (None, "open", "finished")
        filter_.notes.update({"run": "open", VERSIONS: versions_here()})
        filter_.checkpoint()

    def close(self, reason: str) -> None:
        """Set the filter's stats; checkpoint and release the store if it is our own."""
        filter_, self._filter = self._filter, None
        if filter_ is None:
            return
        info = filter_.info()
        for name, value in {
            "seen": info.keys,
            "layers": filter_.layer_count,
            "memory_bytes": filter_.memory_bytes,
            "disk_bytes": info.disk_bytes,
            "current_fpp": info.current_fpp,
            "expected_loss": info.expected_loss,
        }.items():
            self._stats.set_value(f"bloomdupe/{name}", value)
        if not self._shared:
            filter_.notes["run"] = reason
            filter_.close()

    # The life of a request

    def request_seen(self, request: Request) -> bool:
        """Whether the request may have been seen before; marks it as seen."""
        if self._shared:
            return not self._mark(request)
        try:
            seen = not self._mark(request)
            if monotonic() >= self._due:
                self._opened.checkpoint()
                self._due = monotonic() + self._interval
        except StoreError as error:
            if not self._failed:  # the last checkpoint stays valid
                self._failed = True
                logger.critical(
                    "The store of the crawl failed, so the crawl stops: %(error)s. Once"
                    " the cause is gone, run the same command again.",
                    {"error": error},
                )
                fail_crawl(self._crawler, reason_of(error))
            return False  # Scrapy keeps it for the next run
        return seen

    def _mark(self, request: Request) -> bool:
        key, exact = self.key_of(request)
        return self._opened.add(key, exact=exact)

    @property
    def _opened(self) -> BloomFilter:
        if self._filter is None:
            raise RuntimeError("the duplicate filter is not open")
        return self._filter

    def mark_scheduled(self, request: Request) -> None:
        """Mark start requests with ``dont_filter``, which Scrapy's scheduler lets pass.

        Retries and redirects of start requests look like them, but for their ``meta``.
        """
        passed = request.dont_filter and is_start(request)
        if self._filter is None or not passed or request.meta.keys() & LATER:
            return
        if not self._mark(request) and self._skip_starts:
            self._stats.inc_value("bloomdupe/start_requests_skipped")
            raise IgnoreRequest(f"scheduled in an earlier run: {request}")

    # Reports

    def _log_opened(self, filter_: BloomFilter) -> None:
        parameters, settings = filter_.parameters, self._job.settings
        place = "in memory: no JOBDIR is set"
        if settings.is_shared:
            place = "by this worker; Redis knows those of all workers"
        elif settings.directory is not None:
            place = near(str(settings.directory))
        shape = parameters.geometry(0)
        full, mapped = shape.bits // 8, ""
        if not filter_.keeps_blocks:
            full = most_memory(shape)
            mapped = ", its blocks in the data file (BLOOMDUPE_FILTER_MEMORY)"
        logger.info(
            "Duplicate filter: %(capacity)s expected URLs, false-positive probability"
            " %(fpp)g, %(megabytes).1f MB of memory when full%(mapped)s; %(seen)s URLs"
            " seen before (%(place)s)",
            {
                "capacity": f"{parameters.capacity:,}",
                "fpp": parameters.fpp,
                "megabytes": full / 1e6,
                "mapped": mapped,
                "seen": f"{len(filter_):,}",
                "place": place,
            },
        )

    def log(self, request: Request, spider: Spider) -> None:
        """Log and count a request that was dropped, as Scrapy's own filter does."""
        self.report(request)
        self._stats.inc_value("dupefilter/filtered")

    def report(self, request: Request) -> None:
        """Log a request that was dropped, if all are to be logged, or none was."""
        more = (
            " - no more duplicates will be shown (see DUPEFILTER_DEBUG to show all"
            " duplicates)"
        )
        if self._job.settings.debug:
            more = f" (referer: {referer_str(request)})"
        elif self._logged:
            return
        self._logged = True
        logger.debug(
            "Filtered duplicate request: %(request)s%(more)s",
            {"request": request, "more": more},
        )
