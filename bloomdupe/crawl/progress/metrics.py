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
    from collections.abc import Callable, Iterable, Iterator

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
        point, hosts = glance.point, glance.hosts
        about = {"jobdir": self._jobdir, "version": __version__}
        yield self._family(InfoMetricFamily, "", "The crawl.", [(about,)])
        for name, field, text in COUNTERS:
            yield self._counter(name, text, [(getattr(point, field),)])
        for name, field, text in GAUGES:
            yield self._gauge(name, text, [(getattr(point, field),)])
        text = "Retries of this run."
        yield self._counter("retries", text, [(glance.retries,)])
        text = "Visits of this run to pages that were known."
        yield self._counter("revisits", text, [(glance.revisits,)])
        text = "BLOOMDUPE_EXPECTED_URLS."
        yield self._gauge("expected_urls", text, [(self._capacity,)])
        text = "Estimated seconds until no request is pending; +Inf: unknown."
        to_go = math.inf if glance.to_go is None else glance.to_go
        yield self._gauge("time_to_go_seconds", text, [(to_go,)])
        if glance.checkpoint_at:
            text = "Unix time of the last checkpoint of this run."
            at = glance.checkpoint_at
            yield self._gauge("last_checkpoint_timestamp_seconds", text, [(at,)])
        if glance.next_due is not None:
            text = "Unix time of the next request scheduled for later."
            yield self._gauge("next_due_timestamp_seconds", text, [(glance.next_due,)])
        statuses = [(f"{n}xx", pages) for n, pages in enumerate(point.statuses, 1)]
        yield self._counter("responses", "Pages by status.", statuses, "status")
        text = "Failed requests by reason; an HTTP status is a reason."
        yield self._gauge("failures", text, glance.failures.items(), "reason")
        # Hosts with the most pending requests.
        pending = [(host.slot, host.pending) for host in hosts]
        text = "Pending requests of a host."
        yield self._gauge("host_pending", text, pending, "host")
        pages = [(host.slot, host.pages) for host in hosts]
        text = "Pages of a host, over all runs."
        yield self._counter("host_pages", text, pages, "host")
        resting = [(host.slot, int(host.resting)) for host in hosts]
        text = "1 while a host rests, else 0."
        yield self._gauge("host_resting", text, resting, "host")

    def _counter(self, *about: Any) -> Metric:  # noqa: ANN401 - see _family()
        return self._family(CounterMetricFamily, *about)

    def _gauge(self, *about: Any) -> Metric:  # noqa: ANN401 - see _family()
        return self._family(GaugeMetricFamily, *about)

    def _family(
        self,
        kind: Any,  # noqa: ANN401 - a class of families
        name: str,
        text: str,
        samples: Iterable[tuple[Any, ...]],
        *labels: str,
    ) -> Metric:
        """Return a metric; a sample is a value after those of its labels."""
        full = f"bloomdupe_{name}" if name else "bloomdupe"
        family: Metric = kind(full, text, labels=["spider", *labels])
        for *of_labels, value in samples:
            family.add_metric([*self._labels, *of_labels], value)  # type: ignore[attr-defined]
        return family
