"""Metrics: the status of a crawl, for Prometheus. Needs prometheus_client."""

from __future__ import annotations

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
    from collections.abc import Iterator, Mapping

    from prometheus_client.metrics_core import Metric

logger = logger_of(__name__)

METRICS = (
    ("pages_total", "pages", "Pages done, over all runs of the job."),
    ("items_total", "items", "Items scraped, over all runs."),
    ("page_bytes_total", "bytes", "Bytes of the pages, decompressed, over all runs."),
    ("duplicates_total", "duplicates", "Duplicates skipped: links whose URL was seen."),
    ("seconds_total", "seconds", "Seconds that the crawl was running, over all runs."),
    ("retries_total", "retries", "Retries of this run."),
    ("revisits_total", "revisits", "Visits of this run to pages that were known."),
    ("responses_total:status", "responses", "Pages by status."),
    ("host_pages_total:host", "host_pages", "Pages of a host, over all runs."),
    ("heartbeat_timestamp_seconds", "time", "Unix time of the last heartbeat."),
    ("pending", "pending", "Pending requests."),
    ("in_flight", "in_flight", "Requests in flight."),
    ("delayed", "delayed", "Delayed requests."),
    ("slots", "slots", "Slots (hosts) with requests."),
    ("slots_backing_off", "backing_off", "Slots that back off, or are paused."),
    ("failed", "failed", "Failed requests."),
    ("seen", "seen", "URLs in the filter."),
    ("fpp", "fpp", "False-positive probability of the filter, calculated."),
    ("lost", "loss", "New URLs lost to false positives, expected number."),
    ("checkpoint_seconds", "checkpoint", "Longest checkpoint of the last seconds."),
    ("store_bytes", "disk", "Bytes that the store takes on the disk."),
    ("disk_free_bytes", "free", "Bytes that are free on the disk of the store."),
    ("memory_bytes", "memory", "Bytes of memory that the process uses."),
    ("expected_urls", "capacity", "BLOOMDUPE_EXPECTED_URLS."),
    ("time_to_go_seconds", "to_go", "Estimated seconds to the end; +Inf: unknown."),
    (
        "last_checkpoint_timestamp_seconds",
        "checkpoint_at",
        "Unix time of the last checkpoint of this run.",
    ),
    ("next_due_timestamp_seconds", "next_due", "Time of the next delayed request."),
    ("failures:reason", "failures", "Failed requests by reason, such as 404."),
    ("host_pending:host", "host_pending", "Pending requests of a host."),
    ("host_backing_off:host", "host_backing_off", "1 while a host backs off, else 0."),
)
"""Name after ``bloomdupe_``, with the label if there are several; figure; help. A
counter ends in ``_total``."""


class Metrics(Collector):
    """Answers at ``/metrics``, from a thread of its own.

    ``jobdir`` is empty if the crawl is in memory.
    """

    def __init__(self, spider: str, jobdir: str) -> None:
        self._spider = spider
        self._jobdir = jobdir
        self.figures: Mapping[str, Any] = {}
        """Those of the last sample of the crawl: each is a number, or numbers by label;
        None if it is unknown. That thread reads them, so they are replaced by others,
        and not changed. Hosts are those with the most pending requests."""
        self._server: Any = None

    def begin(self, host: str, port: int) -> int | None:
        """Listen; return the port. Logs an error if that is impossible."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            self._server, _ = start_http_server(port, host, registry)
        except (OSError, UnicodeError) as error:  # of the host's name
            why = getattr(error, "strerror", None) or error
            logger.error(  # noqa: TRY400 - the reason says it all
                "BLOOMDUPE_METRICS: the port %(port)d cannot be opened on"
                " %(host)s (%(reason)s); the crawl goes on without metrics",
                {"port": port, "host": host, "reason": why},
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
        about = {"jobdir": self._jobdir, "version": __version__}
        info = InfoMetricFamily("bloomdupe", "The crawl.", labels=["spider"])
        info.add_metric([self._spider], about)
        yield info
        figures = self.figures
        for names, figure, text in METRICS:
            name, *label = names.split(":")
            kind: Any = GaugeMetricFamily
            if name.endswith("_total"):
                kind = CounterMetricFamily
            family = kind(f"bloomdupe_{name}", text, labels=["spider", *label])
            found = figures.get(figure)
            if label:
                for one, value in (found or {}).items():
                    family.add_metric([self._spider, one], value)
            elif found is not None:
                family.add_metric([self._spider], found)
            yield family
