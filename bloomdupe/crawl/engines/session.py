"""Session: Scrapy's side of an open crawl, between its opening and its closing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals
from twisted.python.reflect import safe_str

from bloomdupe.crawl.ending import INCOMPLETE, Ending, MemoryWatch, Stopping
from bloomdupe.crawl.engines.crawl_job import queue_order
from bloomdupe.crawl.in_flight.outcomes import Outcome
from bloomdupe.crawl.in_flight.registry import InFlightRegistry
from bloomdupe.crawl.in_flight.request import InFlightRequest
from bloomdupe.crawl.progress.pace import plural, when
from bloomdupe.crawl.progress.rounds import FINISHED
from bloomdupe.crawl.retries import GrowingWait
from bloomdupe.crawl.state.slot_rules import SlotRules
from bloomdupe.errors import FeedError
from bloomdupe.inside_scrapy.engine import EngineAccess
from bloomdupe.inside_scrapy.processing import CURRENT, Processing
from bloomdupe.links.fingerprint import fingerprint_function
from bloomdupe.printable import logger_of, printable
from bloomdupe.requests.serializer import Serializer

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

    from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
    from bloomdupe.crawl.engines.crawl_job import CrawlJob
    from bloomdupe.crawl.in_flight.outcomes import Key
    from bloomdupe.feeds.exporter import Line
    from bloomdupe.links.link_filter import LinkFilter

logger = logger_of(__name__)


class Session:
    """The requests in flight, and their output, of a crawl on any engine."""

    link_filter: LinkFilter | None = None
    """Drops duplicates where the spider yields them, if it is in use."""
    engine: CrawlEngine
    """Where the crawl keeps its requests."""

    def __init__(self, crawler: Crawler, job: CrawlJob) -> None:
        if crawler.stats is None or crawler.spider is None:
            raise RuntimeError("the crawler has no stats or no spider yet")
        settings = self.settings = job.settings
        self.crawler = crawler
        self.spider = crawler.spider
        self.stats = crawler.stats
        self.access = EngineAccess(crawler)
        self.stopping = Stopping(self)
        self.ending = Ending(self)
        self.serializer = Serializer(crawler.spider)
        self.registry = InFlightRegistry()
        backoff = settings.retry_backoff
        self.growing = None if backoff is None else GrowingWait(*backoff)
        """How long retries wait, if they do."""
        self.slots = SlotRules(self)
        """Decides which slots may have a request."""
        self.closed = False
        """Whether nothing counts any more that comes now."""
        self.processing = Processing(
            crawler,
            self.registry.of,
            backpressure=lambda: self.engine.committing.backpressure,
            held=lambda: self.engine.holds,
            is_empty=lambda: not self.engine.frontier.pending,
        )
        fingerprinter = crawler.request_fingerprinter
        assert fingerprinter is not None  # noqa: S101 - the crawl is open
        self.fingerprint = fingerprint_function(fingerprinter)
        self._memory_watch = MemoryWatch(self.stopping)

    @property
    def frontier_options(self) -> dict[str, Any]:
        """Options of a frontier that depend on this crawl."""
        return {
            "order": queue_order(self.crawler.settings, durable=self.settings.durable),
            "wait": self.slots.wait,
            "downloader": self.access,
            "longest_backoff": self.slots.longest_backoff,
        }

    def open(self, engine: CrawlEngine) -> None:
        """Go on with the crawl that an engine keeps, and watch Scrapy from now on."""
        self.engine = self.registry.engine = engine
        engine.open()
        self._watch()
        self._log_status()

    def _watch(self) -> None:
        self.processing.attach()
        self.access.watch_start(self.engine.starting.watch)
        connect = self.crawler.signals.connect
        connect(self._left_downloader, signals.request_left_downloader)
        connect(self._reached_downloader, signals.request_reached_downloader)
        if self.engine.feeds is None:
            connect(self._scraped, signals.item_scraped)
        else:  # later receivers may change the item
            self.engine.feeds.scraped = self._scraped
        connect(self._item_failed, signals.item_error)
        connect(self.ending.idle, signals.spider_idle)
        logging.getLogger().addHandler(self._memory_watch)

    def _log_status(self) -> None:
        engine, run = self.engine, self.engine.run
        self.stats.set_value("bloomdupe/round", run.round)
        engine.rules.say()
        if run.last is None:
            return
        finished = when(run.finished_at)
        if run.idle:
            totals = engine.totals
            done = f"{plural(totals.pages, 'page')} and {plural(totals.items, 'item')}"
            said = (
                f"This job was finished at {finished}, with {done}: only new start"
                ' requests are scheduled. BLOOMDUPE_START_REQUESTS = "again" begins a'
                " new round"
            )
        elif run.new_round:
            said = f"Round {run.round} of this job begins; the last was finished at"
            said += f" {finished}"
        else:
            ended = f"ended: {run.last}"
            if run.last == "open":  # on Redis by other workers, perhaps
                ended = "has not ended" if self.settings.is_shared else "was killed"
            left = plural(len(engine), "request")
            said = f"Resuming crawl ({left} scheduled); the last run {ended}"
        logger.info("%(said)s", {"said": said})
        self.stats.set_value("bloomdupe/resumed", len(engine))

    # Requests, and the work they belong to

    def key_of(self, request: Request) -> Key:
        """Return a request's fingerprint, and whether it is exact."""
        return self.fingerprint(request), self.settings.exact.match(request.url)

    def parent(self) -> InFlightRequest | None:
        """Return the unacknowledged request on which the running code works.

        An item of ``start()`` is one, too.
        """
        work = CURRENT.get()
        if isinstance(work, InFlightRequest) and work.registry is self.registry:
            return None if work.root.is_acked else work
        return None

    def take_item(self, response: Any, lines: list[Line]) -> None:
        """Take an item that is through its pipelines, as lines for the feeds.

        Items of ``start()`` may come when the crawl has closed: the next run, or
        another worker, yields them again, and so does a page that is left.
        """
        # A pipeline may have lost track, the response has not.
        parent = self.parent() or self.registry.of(getattr(response, "request", None))
        if self.closed or (parent is not None and parent.is_dropped):
            return
        outcome = Outcome() if parent is None else parent.outcome
        outcome.items += 1
        outcomes = self.engine.outcomes
        try:
            for line in lines:
                outcomes.add_line(outcome, line)
        except FeedError as error:
            self.stopping.fail(error)
            return
        self.engine.has_work()
        if parent is None:
            outcome.of_no_page = True
            outcomes.ack(outcome)

    def _scraped(self, item: object, response: Any) -> None:
        lines: list[Line] = []
        errors: list[Exception] = []
        if self.engine.feeds is not None:
            lines, errors = self.engine.feeds.take(item)
        self.take_item(response, lines)
        if errors:
            raise errors[-1]

    def _item_failed(self, failure: Failure, response: object) -> None:
        in_flight = self.parent()
        if in_flight is not None and failure.value is not None:
            in_flight.item_failed(failure.value, response)

    # Signals

    def _left_downloader(self, request: Request) -> None:
        in_flight = self.registry.of(request)
        if in_flight is not None:
            in_flight.release()

    def _reached_downloader(self, request: Request) -> None:
        """Check whether a middleware has put a request into another slot."""
        in_flight = self.registry.of(request)
        if in_flight is None or not in_flight.entry.active:
            return
        if self.access.slot_of(request) != in_flight.entry.queue.name:
            # The downloader paces it there; its own slot is as free as before.
            in_flight.release()
            self.access.wake()

    # The end

    def close(self, reason: str) -> None:
        """Close the engine, which makes everything durable, and stop watching."""
        logging.getLogger().removeHandler(self._memory_watch)
        self.closed = True
        self.stopping.end()
        # A spider may give any object.
        true_reason = self.ending.status.reason(printable(safe_str(reason)))
        others_go_on = self.settings.is_shared and true_reason != FINISHED
        self.stopping.may_be_refused = others_go_on
        self.engine.close(true_reason)
        if true_reason == INCOMPLETE and self.stopping.failure is None:
            self.ending.say()
