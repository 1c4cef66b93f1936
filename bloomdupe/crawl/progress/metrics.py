"""Metrics: how a crawl stands, for Prometheus. Needs the package prometheus_client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from bloomdupe.crawl.progress.history import Point

__all__ = ["Metrics"]

logger = logger_of(__name__)

COUNTERS = (
    ("pages", "pages", "Pages done, over all runs of the job."),
    ("items", "items", "Items scraped, over all runs."),
    ("page_bytes", "bytes", "Bytes of the pages, decompressed, over all runs."),
    ("duplicates", "duplicates", "Duplicates skipped: links whose URL was seen."),
    ("seconds", "seconds", "Seconds that the crawl was running, over all runs."),
)
GAUGES = (
    (
        "heartbeat_timestamp_seconds",
        "time",
        "Unix time of the last sign of life, which comes every five seconds.",
    ),
    ("pending", "pending", "Pending requests."),
    ("leased", "leased", "Requests in progress."),
    ("later", "later", "Requests scheduled for later."),
    ("slots", "slots", "Slots (hosts) with requests."),
    ("resting_slots", "resting", "Slots that rest: they fail, or ask for it."),
    ("failed", "failed", "Failed requests."),
    ("seen", "seen", "URLs in the filter."),
    ("fpp", "fpp", "False-positive probability of the filter, calculated."),
    ("lost", "loss", "New URLs lost to false positives, expected number."),
    ("checkpoint_seconds", "checkpoint", "Longest checkpoint of the last seconds."),
    ("store_bytes", "disk", "Bytes that the store takes on the disk."),
    ("disk_free_bytes", "free", "Bytes that are free on the disk of the store."),
    ("memory_bytes", "memory", "Bytes of memory that the process uses."),
)
"""Name after ``bloomdupe_``, field of a history ``Point``, help."""


class Metrics(Collector):
    """Answers at ``/metrics``, from a thread of its own.

    ``look`` returns how the crawl stood when it was looked at last; that thread calls
    it. ``capacity`` is the expected number of URLs.
    """

    def __init__(self, spider: str, capacity: int, look: Callable[[], Point]) -> None:
        self._labels = (spider,)
        self._capacity = capacity
        self._look = look
        self._server: Any = None

    def begin(self, host: str, port: int) -> int | None:
        """Listen; return the port. Logs an error if that is impossible."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            self._server, _ = start_http_server(port, host, registry)
        except OSError as error:
            logger.error(  # noqa: TRY400 - the reason says it all
                "BLOOMDUPE_METRICS_PORT = %(port)d: the port cannot be opened on"
                " %(host)s (%(reason)s); the crawl goes on without metrics",
                {"port": port, "host": host, "reason": error.strerror},
            )
            return None
        port = self._server.server_port
        logger.info(
            "Metrics for Prometheus: http://%(host)s:%(port)d/metrics",
            {"host": host, "port": port},
        )
        return port

    def end(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def collect(self) -> Iterator[Metric]:
        """Yield all figures; called for each question."""
        point = self._look()
        for name, field, text in COUNTERS:
            counter = CounterMetricFamily(f"bloomdupe_{name}", text, labels=["spider"])
            counter.add_metric(self._labels, getattr(point, field))
            yield counter
        responses = CounterMetricFamily(
            "bloomdupe_responses", "Pages by status.", labels=["spider", "status"]
        )
        for first, pages in enumerate(point.statuses, 1):
            responses.add_metric([*self._labels, f"{first}xx"], pages)
        yield responses
        for name, field, text in GAUGES:
            gauge = GaugeMetricFamily(f"bloomdupe_{name}", text, labels=["spider"])
            gauge.add_metric(self._labels, getattr(point, field))
            yield gauge
        gauge = GaugeMetricFamily(
            "bloomdupe_expected_urls", "BLOOMDUPE_EXPECTED_URLS.", labels=["spider"]
        )
        gauge.add_metric(self._labels, self._capacity)
        yield gauge
