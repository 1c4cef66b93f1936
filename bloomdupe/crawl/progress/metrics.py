"""Metrics: how a crawl stands, for Prometheus. Needs the package prometheus_client."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from bloomdupe._version import __version__
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from bloomdupe.crawl.progress.history import Glance

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

    ``look`` returns the crawl as it was looked at last; that thread calls it.
    ``jobdir`` is empty if the crawl is in memory; ``capacity`` is the expected number
    of URLs.
    """

    def __init__(
        self,
        spider: str,
        jobdir: str,
        capacity: int,
        look: Callable[[], Glance],
    ) -> None:
        self._labels = (spider,)
        self._jobdir = jobdir
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
                "BLOOMDUPE_METRICS: the port %(port)d cannot be opened on"
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
        glance = self._look()
        point = glance.point
        info = InfoMetricFamily("bloomdupe", "The crawl.", labels=["spider"])
        about = {"jobdir": self._jobdir, "version": __version__}
        info.add_metric(self._labels, about)
        yield info
        for name, field, text in COUNTERS:
            yield self._counter(name, text, getattr(point, field))
        yield self._counter("retries", "Retries of this run.", glance.retries)
        for name, field, text in GAUGES:
            yield self._gauge(name, text, getattr(point, field))
        yield self._gauge("expected_urls", "BLOOMDUPE_EXPECTED_URLS.", self._capacity)
        yield from self._if_known(glance)
        yield from self._by_label(glance)
        yield from self._hosts(glance)

    def _if_known(self, glance: Glance) -> Iterator[Metric]:
        for name, text, value in (
            (
                "last_checkpoint_timestamp_seconds",
                "Unix time of the last checkpoint of this run.",
                glance.checkpoint_at or None,
            ),
            (
                "time_to_go_seconds",
                "Estimated seconds until no request is pending; +Inf: unknown.",
                math.inf if glance.to_go is None else glance.to_go,
            ),
            (
                "next_due_timestamp_seconds",
                "Unix time of the next request scheduled for later.",
                glance.next_due,
            ),
        ):
            if value is not None:
                yield self._gauge(name, text, value)

    def _by_label(self, glance: Glance) -> Iterator[Metric]:
        responses = CounterMetricFamily(
            "bloomdupe_responses", "Pages by status.", labels=["spider", "status"]
        )
        for first, pages in enumerate(glance.point.statuses, 1):
            responses.add_metric([*self._labels, f"{first}xx"], pages)
        yield responses
        revisits = CounterMetricFamily(
            "bloomdupe_revisits",
            "Visits of this run to pages that were known.",
            labels=["spider"],
        )
        revisits.add_metric(self._labels, glance.revisits)
        yield revisits
        failures = GaugeMetricFamily(
            "bloomdupe_failures",
            "Failed requests by reason; an HTTP status is a reason.",
            labels=["spider", "reason"],
        )
        for reason, requests in glance.failures.items():
            failures.add_metric([*self._labels, reason], requests)
        yield failures

    def _hosts(self, glance: Glance) -> Iterator[Metric]:
        """Yield figures of the hosts with the most pending requests."""
        labels = ["spider", "host"]
        pending = GaugeMetricFamily(
            "bloomdupe_host_pending", "Pending requests of a host.", labels=labels
        )
        pages = CounterMetricFamily(
            "bloomdupe_host_pages", "Pages of a host, over all runs.", labels=labels
        )
        resting = GaugeMetricFamily(
            "bloomdupe_host_resting", "1 while a host rests, else 0.", labels=labels
        )
        for host in glance.hosts:
            names = [*self._labels, host.slot]
            pending.add_metric(names, host.pending)
            pages.add_metric(names, host.pages)
            resting.add_metric(names, int(host.resting))
        yield from (pending, pages, resting)

    def _counter(self, name: str, text: str, value: float) -> Metric:
        counter = CounterMetricFamily(f"bloomdupe_{name}", text, labels=["spider"])
        counter.add_metric(self._labels, value)
        return counter

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(f"bloomdupe_{name}", text, labels=["spider"])
        gauge.add_metric(self._labels, value)
        return gauge
