"""JobSettings: the BLOOMDUPE_* settings of a crawl, read once and checked."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from bloomdupe.filter.parameters import check_memory
from bloomdupe.filter.sizing import check_capacity, check_fpp
from bloomdupe.setting_values import (
    FAILURE_REASONS,
    check_address,
    check_backoff,
    check_choice,
    check_directory,
    check_exact,
    check_flag,
    check_limit,
    check_number,
    check_reasons,
    check_revisit,
    check_seconds,
    check_wait,
)

if TYPE_CHECKING:
    import re
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from bloomdupe.setting_values import ExactUrls

__all__ = ["DEFAULTS", "FAILURE_REASONS", "JobSettings", "check_reasons"]

DEFAULTS: dict[str, Any] = {
    "BLOOMDUPE_EXPECTED_URLS": 10_000_000,
    "BLOOMDUPE_FPP": 1e-6,
    "BLOOMDUPE_FILTER_MEMORY": None,
    "BLOOMDUPE_EXACT": False,
    "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.5,
    "BLOOMDUPE_START_REQUESTS": "resume",
    "BLOOMDUPE_SPIDER_ATTRIBUTES": True,
    "BLOOMDUPE_MAX_PENDING_PER_SLOT": None,
    "BLOOMDUPE_MAX_PAGES_PER_SLOT": None,
    "BLOOMDUPE_MAX_FAILURES": 10_000,
    "BLOOMDUPE_RETRY_FAILED": False,
    "BLOOMDUPE_PROGRESS_INTERVAL": 60,
    "BLOOMDUPE_METRICS": None,
    "BLOOMDUPE_STAY": False,
    "BLOOMDUPE_WAIT": None,
    "BLOOMDUPE_RETRY_BACKOFF": None,
    "BLOOMDUPE_REVISIT": [],
    "BLOOMDUPE_REDIS_URL": None,
    "BLOOMDUPE_REDIS_LEASE": 30,
}

START_POLICIES = ("resume", "again", "always")


@dataclass(frozen=True)
class JobSettings:
    """The settings of a crawl."""

    directory: Path | None
    """Directory of the store; None keeps everything in memory."""
    capacity: int
    fpp: float
    filter_memory: int | None
    """Bytes that the pages of the filter may take in memory; None: a quarter of the
    machine's memory."""
    exact: ExactUrls
    """The URLs whose fingerprints are kept exactly."""
    checkpoint_interval: float
    """Seconds between checkpoints while something changes."""
    start_requests: str
    """Start requests to schedule: ``resume`` (those that were not scheduled yet),
    ``again`` (the same in an unfinished crawl; after a finished crawl, a new round
    begins with all of them), ``always`` (all, in every run)."""
    spider_attributes: bool
    """Whether plain attributes of the spider are part of the checkpoints."""
    max_pending_per_slot: int | None
    """Most pending requests of a slot; None: any number."""
    max_pages_per_slot: int | None
    """Most requests accepted per slot over all runs of the job; None: any number."""
    max_failures: int
    """Most failed requests that are kept; 0: they are not kept."""
    retry_failed: tuple[str, ...] | None
    """Failed requests that the run retries, by reason or HTTP status; () for all of
    them, None for no retry."""
    progress_interval: float
    """Seconds between progress lines in the log; 0: no such lines."""
    metrics: tuple[str, int] | None
    """IP address and port for Prometheus; 0: any free port, None: no metrics."""
    stay: bool
    """Whether the crawl stays open when nothing is pending."""
    wait: float | None
    """Most seconds that a crawl sleeps until the next request is due; None: no
    limit."""
    retry_backoff: tuple[float, float, float] | None
    """Most seconds before the first retry, the factor by which they grow with each
    retry, and their limit; None: retries do not wait."""
    revisit: tuple[tuple[re.Pattern[str], float], ...]
    """Pages that are visited again: after so many seconds."""
    """Items to keep from repeated visits: ``changed`` (items of pages that have
    changed) or ``always``."""
    redis_url: str | None
    """Server of a crawl that several workers share; None: a single process."""
    redis_lease: float
    """Seconds until other workers continue the work of a worker that is silent."""
    debug: bool
    """Log every duplicate (Scrapy's ``DUPEFILTER_DEBUG``)."""

    @classmethod
    def read(cls, settings: BaseSettings) -> JobSettings:
        """Read a project's settings; raise :class:`SettingError` for a wrong value."""

        def given(name: str) -> tuple[Any, str]:
            value = settings.get(name)
            return DEFAULTS[name] if value is None else value, name

        return cls(
            directory=check_directory(settings.get("JOBDIR")),
            capacity=check_capacity(*given("BLOOMDUPE_EXPECTED_URLS")),
            fpp=check_fpp(*given("BLOOMDUPE_FPP")),
            filter_memory=check_memory(*given("BLOOMDUPE_FILTER_MEMORY")),
            exact=check_exact(*given("BLOOMDUPE_EXACT")),
            checkpoint_interval=check_seconds(*given("BLOOMDUPE_CHECKPOINT_INTERVAL")),
            start_requests=check_choice(
                *given("BLOOMDUPE_START_REQUESTS"), START_POLICIES
            ),
            spider_attributes=check_flag(*given("BLOOMDUPE_SPIDER_ATTRIBUTES")),
            max_pending_per_slot=check_limit(*given("BLOOMDUPE_MAX_PENDING_PER_SLOT")),
            max_pages_per_slot=check_limit(*given("BLOOMDUPE_MAX_PAGES_PER_SLOT")),
            max_failures=check_number(*given("BLOOMDUPE_MAX_FAILURES")),
            retry_failed=check_reasons(*given("BLOOMDUPE_RETRY_FAILED")),
            progress_interval=check_seconds(
                *given("BLOOMDUPE_PROGRESS_INTERVAL"), allow_zero=True
            ),
            metrics=check_address(*given("BLOOMDUPE_METRICS")),
            stay=check_flag(*given("BLOOMDUPE_STAY")),
            wait=check_wait(*given("BLOOMDUPE_WAIT")),
            retry_backoff=check_backoff(*given("BLOOMDUPE_RETRY_BACKOFF")),
            revisit=check_revisit(*given("BLOOMDUPE_REVISIT")),
            redis_url=given("BLOOMDUPE_REDIS_URL")[0] or None,
            redis_lease=check_seconds(*given("BLOOMDUPE_REDIS_LEASE")),
            debug=settings.getbool("DUPEFILTER_DEBUG"),
        )


def unknown(settings: BaseSettings) -> dict[str, str | None]:
    """Return settings that begin as ours do and do not exist, with the likely names."""
    start = "BLOOMDUPE_"
    known = {name.removeprefix(start): name for name in DEFAULTS}
    found = {}
    for name in map(str, settings):
        if name.startswith(start) and name not in DEFAULTS:
            close = get_close_matches(name.removeprefix(start), known, 1)
            found[name] = known[close[0]] if close else None
    return found
