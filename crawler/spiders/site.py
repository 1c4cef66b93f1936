"""The ``site`` spider: every page of a site, once."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import HtmlResponse

from crawler import job
from crawler.hosts import host_of
from crawler.items import Page
from crawler.links import extract_links
from crawler.options import Options
from crawler.sample_site import SampleJob
from crawler.speed import set_speed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure
    from typing_extensions import Self

__all__ = ["SiteSpider"]

_FIRST_ERROR = 400


class SiteSpider(Spider):
    """Follow every link of one or more hosts and yield a :class:`Page` for each URL.

    ``-a url=URL`` where to start (several: separated by blanks); without it, at the
    sample site. ``-a hosts=A,B`` more hosts to follow. ``-a allow=REGEX``,
    ``-a deny=REGEX`` searched for in the absolute URL of each link.
    ``-a max_pages=N`` pages at most, over all runs of the job.
    ``-a retry_failed=REASON`` retries failed requests (``BLOOMDUPE_RETRY_FAILED``).
    ``-a revisit=1d`` visits every page again each day, for ever.

    ``state``, which Scrapy keeps in the job, holds ``pages`` (items yielded),
    ``failed`` (URLs given up without an answer), ``reached`` (whether any page was
    answered with less than 400) and ``start_failed`` (whether a start page was not).
    """

    name = "site"

    def __init__(self, options: Options, sample: SampleJob | None = None) -> None:
        super().__init__()
        self.start_urls = list(options.start_urls)
        self.scope = options.scope
        self.max_pages = options.max_pages
        self.state: dict[str, Any] = {}
        self._sample = sample
        self._opened = False

    @classmethod
    def from_crawler(cls, crawler: Crawler, *_: str, **arguments: str) -> Self:
        """Check the options, then set JOBDIR, FEEDS and the speed on loopback hosts.

        Raises :exc:`scrapy.exceptions.UsageError` for a wrong option; nothing has been
        written then.
        """
        options = Options.parse(arguments)
        sample = None
        if options.start_urls:
            hosts = [host for url in options.start_urls if (host := host_of(url))]
            job.set_job_settings(crawler.settings, job.job_name(hosts))
        else:
            job.set_job_settings(crawler.settings, job.SAMPLE_JOB)
            sample = SampleJob.claim(job.job_folder(crawler.settings))
            options = options.starting_at(sample.url)
        if options.retry_failed is not None:
            crawler.settings.set(
                "BLOOMDUPE_RETRY_FAILED", options.retry_failed, "cmdline"
            )
        set_speed(crawler.settings, options.scope.hosts)
        if options.revisit is not None:
            rules = [(".*", options.revisit)]
            crawler.settings.set("BLOOMDUPE_REVISIT", rules, priority="spider")
        spider = super().from_crawler(crawler, options, sample)
        connect = crawler.signals.connect
        connect(spider._on_opened, signals.spider_opened)  # noqa: SLF001 - our own
        connect(spider._on_idle, signals.spider_idle)  # noqa: SLF001 - our own
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Yield the start requests, as Scrapy's own ``start()`` but with an errback."""
        if self._is_full():  # a job that was closed for it, run again
            raise CloseSpider("max_pages")
        for url in self.start_urls:
            yield Request(url, dont_filter=True, errback=self.fail)

    def parse(self, response: Response, **_: object) -> Iterator[Page | Request]:
        """Yield the page, then a request for each of its links that is in scope."""
        if self._is_full():
            raise CloseSpider("max_pages")  # nothing is yielded: the page stays pending
        self._count(response)
        yield _page(response)
        # Error pages are often the same for any URL: their relative links never end.
        if isinstance(response, HtmlResponse) and response.status < _FIRST_ERROR:
            for url in extract_links(response):
                if self.scope.covers(url):
                    yield Request(url, errback=self.fail)

    def fail(self, failure: Failure) -> None:
        """Count a request that got no answer; report a start request that failed."""
        request: Request = failure.request  # type: ignore[attr-defined]
        dropped = isinstance(failure.value, IgnoreRequest)
        reason = failure.getErrorMessage() or type(failure.value).__name__
        if request.meta.get("is_start_request"):
            self._fail_start(request.url, reason)
        if not dropped:
            self.state["failed"] = self.state.get("failed", 0) + 1
            self.logger.error(
                "Failed: %(url)s: %(reason)s", {"url": request.url, "reason": reason}
            )

    def closed(self, reason: str) -> None:
        """Log the state of the job, and how to continue it."""
        if self._sample is not None:
            self._sample.stop()
        if not self._opened:  # refused at the start: the error says it
            return
        folder = job.job_folder(self.settings)
        message = "Job %(job)s: %(how)s; %(pages)d pages so far, items in %(items)s"
        if failed := self.state.get("failed", 0):
            message += f"; {failed} URLs failed for good, see the log"
        how = "finished" if reason == "finished" else f"not finished ({reason})"
        if reason == "start_failed":
            message += (
                "; no start page could be fetched, see above; mend it, remove the "
                "folder %(job)s, and run the command again"
            )
        elif reason == "max_pages":
            message += "; go on with a larger -a max_pages"
        elif reason != "finished" and folder is not None:
            message += "; go on with: %(command)s"
        self.logger.info(
            message,
            {
                "job": folder or "without JOBDIR",
                "how": how,
                "pages": self.state.get("pages", 0),
                "items": job.item_files(self.settings),
                "command": job.command_line() or "the same command",
            },
        )

    def _on_opened(self) -> None:
        self._opened = True
        # Pages in flight when a run was killed are fetched again, and count once.
        stats = self.crawler.stats
        assert stats is not None  # noqa: S101 - it runs
        self.state["pages"] = stats.get_value(
            "bloomdupe/total_items", self.state.get("pages", 0)
        )
        if self._sample is not None:
            self._sample.serve()

    def _on_idle(self) -> None:
        # Remembered in the state: the plugin does not start a started job again, so
        # the next run would be "finished" at once.
        if self.state.get("start_failed") and not self.state.get("reached"):
            raise CloseSpider("start_failed")

    def _is_full(self) -> bool:
        return (
            self.max_pages is not None and self.state.get("pages", 0) >= self.max_pages
        )

    def _count(self, response: Response) -> None:
        self.state["pages"] = self.state.get("pages", 0) + 1
        if response.status < _FIRST_ERROR:
            self.state["reached"] = True
        elif response.meta.get("is_start_request"):
            self._fail_start(response.url, f"answered {response.status}")
        if response.meta.get("is_start_request"):
            host = host_of(response.url)
            if host not in self.scope.hosts:
                self.logger.warning(
                    "The start page leads to %(url)s, on a host that is not followed: "
                    "start there, or add -a hosts=%(host)s",
                    {"url": response.url, "host": host},
                )

    def _fail_start(self, url: str, reason: str) -> None:
        self.state["start_failed"] = True
        self.logger.error(
            "Start page failed: %(url)s: %(reason)s", {"url": url, "reason": reason}
        )


def _page(response: Response) -> Page:
    """Describe a response."""
    assert response.request is not None  # noqa: S101 - the engine sets it
    title = None
    if isinstance(response, HtmlResponse):
        title = " ".join((response.xpath("string(//title)").get() or "").split())
    return Page(
        url=response.url,
        status=response.status,
        title=title,
        depth=response.meta.get("depth", 0),
        content_type=_header(response.headers.get("Content-Type")),
        length=len(response.body),
        referrer=_header(response.request.headers.get("Referer")),
        time=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
    )


def _header(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
