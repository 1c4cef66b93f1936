"""JobSettings: the BLOOMDUPE_* settings of a crawl, read once and checked."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

from bloomdupe.filter.parameters import check_memory
from bloomdupe.filter.sizing import check_capacity, check_fpp
from bloomdupe.setting_values import (
    FAILURE_REASONS,
    check_address,
    check_backoff,
    check_directory,
    check_exact,
    check_flag,
    check_reasons,
    check_revisit,
    check_seconds,
    check_start,
    check_wait,
    check_whole,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from bloomdupe.setting_values import ExactUrls

__all__ = ["DEFAULTS", "FAILURE_REASONS", "JobSettings", "check_reasons"]

START = "BLOOMDUPE_"
"""How the names of our settings begin."""


def _of(default: object, check: Callable[..., object], name: str = "") -> Any:  # noqa: ANN401 - a field
    """Return a field for a setting, named as the setting is unless a name is given.

    None, in a project, is the default, too. ``check`` returns the value of the field.
    """
    return field(metadata={"default": default, "check": check, "name": name})


@dataclass(frozen=True)
class JobSettings:
    """The settings of a crawl: the table of their names, defaults and checks."""

    directory: Path | None
    """Directory of the store (Scrapy's ``JOBDIR``); None keeps everything in memory."""
    debug: bool
    """Log every duplicate (Scrapy's ``DUPEFILTER_DEBUG``)."""
    capacity: int = _of(10_000_000, check_capacity, "EXPECTED_URLS")
    fpp: float = _of(1e-6, check_fpp)
    filter_memory: int | None = _of(None, check_memory)
    """Bytes that the pages of the filter may take in memory; None: a quarter of the
    machine's memory."""
    exact: ExactUrls = _of(False, check_exact)  # noqa: RUF009 - a field
    """The URLs whose fingerprints are kept exactly."""
    checkpoint_interval: float = _of(0.5, check_seconds)
    """Seconds between checkpoints while something changes."""
    start_requests: str = _of("resume", check_start)
    """Start requests to schedule: ``resume`` (those that were not scheduled yet),
    ``again`` (the same in an unfinished crawl; after a finished crawl, a new round
    begins with all of them), ``always`` (all, in every run)."""
    spider_attributes: bool = _of(True, check_flag)
    """Whether plain attributes of the spider are part of the checkpoints."""
    max_pending_per_slot: int | None = _of(None, check_whole)
    """Most pending requests of a slot; None: any number."""
    max_pages_per_slot: int | None = _of(None, check_whole)
    """Most requests accepted per slot over all runs of the job; None: any number."""
    max_failures: int = _of(10_000, partial(check_whole, least=0))
    """Most failed requests that are kept; 0: they are not kept."""
    retry_failed: tuple[str, ...] | None = _of(False, check_reasons)
    """Failed requests that the run retries, by reason or HTTP status; () for all of
    them, None for no retry."""
    progress_interval: float = _of(60, partial(check_seconds, least=0.0))
    """Seconds between progress lines in the log; 0: no such lines."""
    metrics: tuple[str, int] | None = _of(None, check_address)
    """IP address and port for Prometheus; 0: any free port, None: no metrics."""
    stay: bool = _of(False, check_flag)
    """Whether the crawl stays open when nothing is pending."""
    wait: float | None = _of(None, check_wait)
    """Most seconds that a crawl sleeps until the next request is due; None: no
    limit."""
    retry_backoff: tuple[float, float, float] | None = _of(None, check_backoff)
    """Most seconds before the first retry, the factor by which they grow with each
    retry, and their limit; None: retries do not wait."""
    revisit: tuple[tuple[re.Pattern[str], float], ...] = _of([], check_revisit)
    """Pages that are visited again: after so many seconds."""
    redis_url: str | None = _of(None, lambda value, _: value or None)
    """Server of a crawl that several workers share; None: a single process."""
    redis_lease: float = _of(30, check_seconds)
    """Seconds until other workers continue the work of a worker that is silent."""

    @property
    def is_shared(self) -> bool:
        """Whether the crawl is on Redis, for several workers."""
        return self.redis_url is not None

    @property
    def durable(self) -> bool:
        """Whether anything of the crawl survives the process."""
        return self.is_shared or self.directory is not None

    @classmethod
    def read(cls, settings: BaseSettings) -> JobSettings:
        """Read a project's settings; raise :class:`SettingError` for a wrong value."""
        values = {}
        for name, (attribute, default, check) in _TABLE.items():
            value = settings.get(name)
            values[attribute] = check(default if value is None else value, name)
        directory = check_directory(settings.get("JOBDIR"))
        debug = settings.getbool("DUPEFILTER_DEBUG")
        return cls(directory=directory, debug=debug, **values)


_TABLE: dict[str, tuple[str, Any, Callable[[Any, str], Any]]] = {
    START + (one.metadata["name"] or one.name.upper()): (
        one.name,
        one.metadata["default"],
        one.metadata["check"],
    )
    for one in fields(JobSettings)
    if one.metadata
}
DEFAULTS = {name: default for name, (_, default, _) in _TABLE.items()}


def unknown(settings: BaseSettings) -> dict[str, str | None]:
    """Return settings that begin as ours do and do not exist, with the likely names."""
    known = {name.removeprefix(START): name for name in DEFAULTS}
    found = {}
    for name in map(str, settings):
        if name.startswith(START) and name not in DEFAULTS:
            close = get_close_matches(name.removeprefix(START), known, 1)
            found[name] = known[close[0]] if close else None
    return found
