"""JobSettings: the BLOOMDUPE_* settings of a crawl, read once and checked."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import SettingError
from bloomdupe.parameters import check_confirm, check_growth
from bloomdupe.sizing import check_capacity, check_fpp

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

__all__ = ["DEFAULTS", "JobSettings"]

DEFAULTS: dict[str, Any] = {
    "BLOOMDUPE_EXPECTED_URLS": 10_000_000,
    "BLOOMDUPE_FPP": 1e-6,
    "BLOOMDUPE_GROWTH": "grow",
    "BLOOMDUPE_CONFIRM": 0,
    "BLOOMDUPE_EXACT_URLS": [],
    "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.5,
    "BLOOMDUPE_SERIALIZER": "msgpack",
    "BLOOMDUPE_START_REQUESTS": "resume",
    "BLOOMDUPE_FEED_CHANGED": "refuse",
    "BLOOMDUPE_MAX_RETRY_AFTER": 300,
    "BLOOMDUPE_ALLOW_NETWORK_FS": False,
    "BLOOMDUPE_EARLY_DROP": True,
    "BLOOMDUPE_MAX_PENDING_PER_SLOT": None,
    "BLOOMDUPE_MAX_PAGES_PER_SLOT": None,
}

SERIALIZERS = ("msgpack", "pickle")
START_POLICIES = ("resume", "always", "once")
FEED_POLICIES = ("refuse", "accept")


@dataclass(frozen=True)
class JobSettings:
    """What a crawl asks of its duplicate filter."""

    directory: Path | None
    """Where the store lies; None keeps everything in memory."""
    capacity: int
    fpp: float
    growth: str
    confirm: float
    exact_urls: tuple[re.Pattern[str], ...]
    checkpoint_interval: float
    """Seconds between checkpoints while something changes."""
    serializer: str
    """How requests are stored: ``msgpack``, or ``pickle`` where that cannot."""
    start_requests: str
    """Which are scheduled again: ``resume`` (in an unfinished crawl, those that were
    not yet; after a finished one, all), ``always`` (all), ``once`` (never again)."""
    feed_changed: str
    """What becomes of a feed that others have changed between two runs: ``refuse`` to
    start, or ``accept`` it as it is."""
    max_retry_after: float
    """Seconds that a server's Retry-After is obeyed at most; 0: not at all."""
    allow_network_fs: bool
    """Whether the store may lie on a network file system."""
    early_drop: bool
    """Drop duplicate links next to the spider already."""
    max_pending_per_slot: int | None
    """Requests that may wait in a slot; None: any number."""
    max_pages_per_slot: int | None
    """Requests taken in per slot over all runs of the job; None: any number."""
    debug: bool
    """Log every duplicate (Scrapy's ``DUPEFILTER_DEBUG``)."""

    @classmethod
    def read(cls, settings: BaseSettings) -> JobSettings:
        """Read a project's settings; raise :class:`SettingError` for a bad one."""

        def given(name: str) -> tuple[Any, str]:
            value = settings.get(name)
            return DEFAULTS[name] if value is None else value, name

        return cls(
            directory=_directory(settings.get("JOBDIR")),
            capacity=check_capacity(*given("BLOOMDUPE_EXPECTED_URLS")),
            fpp=check_fpp(*given("BLOOMDUPE_FPP")),
            growth=check_growth(*given("BLOOMDUPE_GROWTH")),
            confirm=check_confirm(*given("BLOOMDUPE_CONFIRM")),
            exact_urls=_patterns(*given("BLOOMDUPE_EXACT_URLS")),
            checkpoint_interval=_seconds(*given("BLOOMDUPE_CHECKPOINT_INTERVAL")),
            serializer=_choice(*given("BLOOMDUPE_SERIALIZER"), SERIALIZERS),
            start_requests=_choice(*given("BLOOMDUPE_START_REQUESTS"), START_POLICIES),
            feed_changed=_choice(*given("BLOOMDUPE_FEED_CHANGED"), FEED_POLICIES),
            max_retry_after=_seconds(
                *given("BLOOMDUPE_MAX_RETRY_AFTER"), allow_zero=True
            ),
            allow_network_fs=_flag(*given("BLOOMDUPE_ALLOW_NETWORK_FS")),
            early_drop=_flag(*given("BLOOMDUPE_EARLY_DROP")),
            max_pending_per_slot=_limit(*given("BLOOMDUPE_MAX_PENDING_PER_SLOT")),
            max_pages_per_slot=_limit(*given("BLOOMDUPE_MAX_PAGES_PER_SLOT")),
            debug=settings.getbool("DUPEFILTER_DEBUG"),
        )


def _directory(jobdir: object) -> Path | None:
    if not jobdir:
        return None
    path = Path(str(jobdir))
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise SettingError(
                    f"JOBDIR = {str(jobdir)!r}: {place} is a file; name a directory"
                )
            if not os.access(place, os.W_OK | os.X_OK):
                raise SettingError(
                    f"JOBDIR = {str(jobdir)!r}: {place} is not writable; change its"
                    " permissions or name another directory"
                )
            break
    return path / "bloomdupe"


def _seconds(value: object, name: str, *, allow_zero: bool = False) -> float:
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = math.nan
    if not (0 < seconds < math.inf or (allow_zero and seconds == 0)):
        least = "no negative" if allow_zero else "a positive"
        raise SettingError(
            f"{name} = {value!r}: expected {least} number of seconds, such as 0.5"
        )
    return seconds


def _flag(value: object, name: str) -> bool:
    flag = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
    if flag is None:
        raise SettingError(f"{name} = {value!r}: expected True or False")
    return flag


def _limit(value: object, name: str) -> int | None:
    """Read a number of requests; a text comes from ``-s NAME=VALUE``."""
    if value is None:
        return None
    text = str(value).replace("_", "")
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and int(text)):
        raise SettingError(
            f"{name} = {value!r}: expected a whole number of at least 1, or None for"
            " no limit"
        )
    return int(text)


def _choice(value: object, name: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise SettingError(f"{name} = {value!r}: expected one of {', '.join(choices)}")
    return str(value)


def _patterns(value: object, name: str) -> tuple[re.Pattern[str], ...]:
    """Compile a list of regular expressions.

    A text (from ``-s NAME=VALUE``) is a JSON list or one expression.
    """
    sources = value
    if isinstance(value, str):
        try:
            sources = json.loads(value) if value.startswith('["') else [value]
        except ValueError:
            sources = [value]
    if not isinstance(sources, (list, tuple, set)):
        raise SettingError(f"{name} = {value!r}: expected a list of expressions")
    patterns = []
    for source in sources:
        try:
            patterns.append(re.compile(source))
        except (re.error, TypeError) as error:
            raise SettingError(
                f"{name}: {source!r} is not a regular expression: {error}"
            ) from error
    return tuple(patterns)
