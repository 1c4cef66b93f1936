"""LinkFilter: skips duplicate links next to the spider, before they cost anything.

Before the scheduler finds out that a link is a duplicate, the link has passed the
spider middlewares, a queue, a signal or two and the fingerprinter. This filter drops it
when the spider yields it.

The filter marks nothing, so a link that is let through loses nothing. In doubt a link
is let through. A link is dropped only if the scheduler would find the very same
fingerprint seen. That cannot change: *seen* never becomes *new* again, so a URL that
was found seen once is not asked again. At the first response the filter looks for
anything that could change a link on its way to the scheduler. If it finds anything, the
log says so, and all links are let through:

* another spider middleware, nearer to the engine, that handles the output of spiders:
  it may replace or drop requests;
* a fingerprinter that may depend on data that is set later, such as headers
  (:func:`bloomdupe.links.fingerprint.is_known_early`);
* a receiver of the signals ``request_scheduled`` or ``request_dropped``, which are not
  sent for links that are dropped here (Scrapy's own, for offsite links, is asked);
* settings that want to see every link: ``DUPEFILTER_DEBUG``, ``DEPTH_STATS_VERBOSE``;
* a scheduler or a dupefilter that is not from this package.

Links that Scrapy would drop for another reason, such as length or depth, are let
through, so that the right stat counts them.
"""

from __future__ import annotations

from enum import Enum
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.utils.python import global_object_name

from bloomdupe.errors import StoreError
from bloomdupe.inside_scrapy.engine import (
    all_pass,
    listeners,
    offsite_of,
    spider_middlewares,
)
from bloomdupe.links.fingerprint import is_known_early, is_plain
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy.crawler import Crawler
    from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
    from scrapy.http import Response
    from typing_extensions import Self

logger = logger_of(__name__)

ORDER = 10_000
"""Where the add-on puts it in SPIDER_MIDDLEWARES: next to the spider."""

HARMLESS = ("scrapy.spidermiddlewares.", "bloomdupe.")
"""Spider middlewares that change no fingerprint; their checks are repeated here."""

KNOWN_BYTES = 8_000_000
"""Bytes of known URLs, about, at which all are forgotten: 40,000 of 70 characters."""
PLACE_BYTES = 80
"""Bytes of a place in a set, at most."""

SPECIAL = frozenset({"verbatim_url", "depth_reset"})
"""Keys of ``meta`` that distinguish requests with the same URL."""


class Duplicate(Enum):
    """Which requests a filter would drop."""

    NO = 0
    THIS = 1
    """This request; another request for the same URL may pass."""
    ALL = 2
    """This request, and all requests with its fingerprint."""


class LinkFilter:
    """A spider middleware that drops requests that the scheduler would filter."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._known: set[str] = set()
        """URLs that were found to be seen: themselves, so that a match is certain."""
        self._known_bytes = 0
        self._would_drop: Callable[[Request], Duplicate] | None = None
        self._report: Callable[[Request], object] | None = None
        settings = crawler.settings
        self._max_length = settings.getint("URLLENGTH_LIMIT")
        self._max_depth = settings.getint("DEPTH_LIMIT")
        self._offsite: list[OffsiteMiddleware] = []
        self._logged = False
        self._deepest = 0
        """Greatest depth of a duplicate."""
        self._on: bool | None = None
        """Whether links may be dropped here; unknown at first."""
        # Whether plain requests with the same URL have the same fingerprint.
        self._by_url = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the link filter of a crawl; called by Scrapy."""
        return cls(crawler)

    def attach(
        self,
        would_drop: Callable[[Request], Duplicate],
        report: Callable[[Request], object],
    ) -> None:
        """Begin to drop links, when the store is open.

        ``would_drop`` says whether the scheduler would filter a request (without
        ``dont_filter``), and marks nothing; ``report`` logs one that is dropped.
        """
        self._would_drop = would_drop
        self._report = report

    def forget(self) -> None:
        """Ask about every URL again, because seen URLs may have become unseen."""
        self._known.clear()
        self._known_bytes = 0

    # Between spider and engine

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Drop the duplicates from the output of a callback; called by Scrapy."""
        judge = self._judge(response)
        dropped = 0
        try:
            async for output in result:
                if judge and isinstance(output, Request) and self._drops(output):
                    dropped += 1
                    continue
                yield output
        finally:
            if dropped:
                self._count(dropped, response)

    def _judge(self, response: Response) -> bool:
        """Whether to judge the links of a response at all."""
        if self._on is None:
            self._find_obstacles()
        if not self._on:
            return False
        return not self._max_depth or (_depth(response) or 0) < self._max_depth

    def _drops(self, request: Request) -> bool:
        if request.dont_filter:
            return False
        url = request.url
        meta = request.meta
        plain = (
            self._by_url
            and request.method == "GET"
            and not request.body
            and (not meta or SPECIAL.isdisjoint(meta))
        )
        if not (plain and url in self._known):
            assert self._would_drop is not None  # noqa: S101 - or it is off
            try:
                drop = self._would_drop(request)
            except StoreError:  # it will fail again when the request is scheduled
                return False
            if drop is Duplicate.NO:
                return False
            if "depth_reset" in meta or not self._arrives(request):
                return False
            if plain and drop is Duplicate.ALL:
                self._known.add(url)
                self._known_bytes += getsizeof(url) + PLACE_BYTES
                if self._known_bytes > KNOWN_BYTES:
                    self.forget()
        if not self._logged and self._report is not None:
            # It is counted later.
            self._logged = True
            self._report(request)
        return True

    def _arrives(self, request: Request) -> bool:
        """Whether a request would get as far as the scheduler."""
        if self._max_length and len(request.url) > self._max_length:
            return False
        return all_pass(self._offsite, request, self._crawler)

    def _count(self, dropped: int, response: Response) -> None:
        """Count duplicates that a page has yielded."""
        stats = self._crawler.stats
        assert stats is not None  # noqa: S101 - the crawl is open
        stats.inc_value("dupefilter/filtered", dropped)
        stats.inc_value("bloomdupe/dropped_early", dropped)
        depth = _depth(response)
        if depth is not None and depth >= self._deepest:
            # Scrapy's DepthMiddleware counts the depth of duplicates, too.
            self._deepest = depth + 1
            stats.max_value("request_depth_max", self._deepest)

    # Parts of Scrapy and of the project that might interfere

    def _find_obstacles(self) -> None:
        """Find out whether a link may change between here and the scheduler."""
        heard = listeners(self._crawler, signals.request_scheduled)
        self._offsite = [*filter(None, map(offsite_of, heard))]
        obstacle = self._obstacle()
        self._on = obstacle is None
        fingerprinter = self._crawler.request_fingerprinter
        self._by_url = fingerprinter is not None and is_plain(fingerprinter)
        if obstacle is not None:
            logger.info(
                "Duplicate links are left to the scheduler, which takes longer:"
                " %(obstacle)s",
                {"obstacle": obstacle},
            )

    def _obstacle(self) -> str | None:
        """Return why links must not be dropped here."""
        settings = self._crawler.settings
        if self._would_drop is None:
            return "SCHEDULER or DUPEFILTER_CLASS is not bloomdupe's own"
        fingerprinter = self._crawler.request_fingerprinter
        if fingerprinter is None or not is_known_early(fingerprinter, settings):
            return (
                "the REQUEST_FINGERPRINTER_CLASS may read values that a request does"
                " not have yet; if it does not, give it the attribute bloomdupe_early ="
                " True"
            )
        for name in ("DUPEFILTER_DEBUG", "DEPTH_STATS_VERBOSE"):
            if settings.getbool(name):
                return f"{name} is on"
        foreign = self._foreign()
        if foreign:
            return (
                f"{foreign[0]} handles what spiders yield after bloomdupe.LinkFilter;"
                " give it a higher order in SPIDER_MIDDLEWARES, or LinkFilter a lower"
            )
        for name in ("request_scheduled", "request_dropped"):
            for receiver in listeners(self._crawler, getattr(signals, name)):
                if not (offsite_of(receiver) or _is_ours(receiver)):
                    return f"{receiver} listens to the signal {name}"
        return None

    def _foreign(self) -> list[str]:
        """Name foreign middlewares after this middleware."""
        names = []
        for middleware in spider_middlewares(self._crawler):
            if middleware is self:
                break
            name = global_object_name(type(middleware))
            if not name.startswith(HARMLESS) and (
                hasattr(middleware, "process_spider_output")
                or hasattr(middleware, "process_spider_output_async")
            ):
                names.append(name)
        return names


def _depth(response: Response) -> int | None:
    """Return the depth that Scrapy has set; with its middleware off, any value."""
    depth = response.meta.get("depth")
    return depth if type(depth) is int else None


def _is_ours(receiver: Any) -> bool:
    """Whether it is a receiver of bloomdupe, which changes no link."""
    return getattr(receiver, "__module__", "").startswith("bloomdupe.")


def attach_link_filter(
    crawler: Crawler,
    would_drop: Callable[[Request], Duplicate],
    report: Callable[[Request], object],
) -> LinkFilter | None:
    """Start the link filter of a crawl, if there is one, and return it."""
    try:
        link_filter = crawler.get_spider_middleware(LinkFilter)
    except RuntimeError:  # no engine: the dupefilter was opened by hand
        return None
    if link_filter is not None:
        link_filter.attach(would_drop, report)
    return link_filter
