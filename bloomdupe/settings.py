"""JobSettings: the BLOOMDUPE_* settings of a crawl, read once and checked."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import SettingError, shown
from bloomdupe.filter.parameters import check_memory
from bloomdupe.filter.sizing import check_capacity, check_fpp
from bloomdupe.foreign import json_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

LONGEST_WAIT = 1e9
"""Seconds: 31 years, a time for which every clock and timer has room."""
MOST_DIGITS = 18
"""Of a whole number: it fits in 64 bits."""
INTEGER = f"a whole number (of {MOST_DIGITS} digits at most)"
PORTS = 1 << 16
FLAGS = {"true": True, "1": True, "false": False, "0": False}
START_POLICIES = ("resume", "again", "always")
FAILURE_REASONS = (
    "status",
    "timeout",
    "dns",
    "connection",
    "download",
    "callback",
    "errback",
    "pipeline",
)
"""Reasons for which a request fails: an HTTP status that the spider does not accept, a
failed download (four kinds), an exception in the project's own code (three)."""


def has_job(settings: BaseSettings) -> bool:
    """Whether a project's settings name a job, in a directory or on Redis."""
    return bool(settings["JOBDIR"] or settings["BLOOMDUPE_REDIS_URL"])


def check_directory(jobdir: object) -> Path | None:
    """Return the directory of the store in a ``JOBDIR``; None without one."""
    if not jobdir:
        return None
    path = Path(str(jobdir)).absolute()  # a spider may change the working directory
    place = next(one for one in (path, *path.parents) if os.path.lexists(one))
    reason = f"{place} is no directory in which this user can make files"
    try:
        is_good = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()  # its name may be too long
    except OSError as error:
        is_good, reason = False, str(error.strerror)
    if not is_good:
        raise SettingError(
            f"JOBDIR = {shown(jobdir)}: {reason}; change its permissions, or name"
            " another directory"
        )
    return path / "bloomdupe"


def check_seconds(value: object, name: str, *, least: float | None = None) -> float:
    """Read a positive number of seconds, or 0 if that is the ``least``."""
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not (0 < seconds <= LONGEST_WAIT or seconds == least):
        kind = "a positive" if least is None else "no negative"
        raise SettingError.of(
            name,
            value,
            f"{kind} number of seconds, {LONGEST_WAIT:g} at most, such as 0.5",
        )
    return seconds


def _parsed(value: object) -> object:
    """Return a value, or the value of a text in JSON; None if it is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json_of(value)
    except ValueError:
        return None


def _text(value: object) -> str:
    """Return a value as text; Python turns no number of thousands of digits into it."""
    try:
        return str(value)
    except ValueError:
        return shown(value)


def _integer(value: object) -> int | None:
    """Return a whole number, also of a text; None if it is none, or too large."""
    text = _text(value).replace("_", "")
    good = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    return int(text) if good and not isinstance(value, bool) else None


def check_revisit(
    value: object, name: str
) -> tuple[tuple[re.Pattern[str], float], ...]:
    """Read a list of pairs; a text is parsed as JSON."""
    pairs = _parsed(value)
    if not isinstance(pairs, (list, tuple)):
        raise SettingError.of(
            name, value, 'a list of pairs, such as [(r"/news/", 3600), (r".*", 86400)]'
        )
    rules = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise SettingError(
                f"{name}: {shown(pair)} is no pair of a regular expression and seconds"
            )
        (pattern,) = check_patterns([pair[0]], name)
        rules.append((pattern, check_seconds(pair[1], name)))
    return tuple(rules)


def check_backoff(value: object, name: str) -> tuple[float, float, float]:
    """Read base, factor and limit; a text looks like ``1,2,300``."""
    parts = value.strip("[()]").split(",") if isinstance(value, str) else value
    try:
        base, factor, limit = (float(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        base = factor = limit = math.nan
    if not (0 < base <= limit <= LONGEST_WAIT and 1 <= factor < math.inf):
        raise SettingError.of(
            name,
            value,
            "three numbers, such as (1, 2, 300): seconds"
            " that the first retry waits, a factor of at least 1, seconds at most",
        )
    return base, factor, limit


def check_flag(value: object, name: str) -> bool:
    """Read True or False."""
    flag = FLAGS.get(_text(value).lower())
    if flag is None:
        raise SettingError.of(name, value, "True or False")
    return flag


def check_integer(value: object, name: str, *, least: int = 1) -> int:
    """Read a whole number."""
    number = _integer(value)
    if number is None or number < least:
        raise SettingError.of(name, value, f"{INTEGER} of at least {least}")
    return number


def check_address(value: object, name: str) -> tuple[str, int]:
    """Read the address of the metrics: a port, or an IP address and a port.

    The metrics need a package.
    """
    host, _, port = _text(value).rpartition(":")
    number = _integer(value if isinstance(value, bool) else port)
    if number is None or number >= PORTS:
        raise SettingError.of(
            name,
            value,
            "a port of this machine, from 0 (any that is free) to 65535, or an IP"
            " address and a port, such as 0.0.0.0:9410 for all machines, or None",
        )
    if find_spec("prometheus_client") is None:
        raise SettingError(
            f"{name} needs the package prometheus_client, which is not installed:"
            " pip install 'bloomdupe[metrics]'"
        )
    return host.strip("[]") or "127.0.0.1", number


def check_reasons(value: object, name: str) -> tuple[str, ...] | None:
    """Read True, False, or reasons: a list, also in JSON, or a text with commas.

    Returns () for all reasons, None for False; raises :class:`SettingError`.
    """
    words = _parsed(value)
    if not isinstance(words, (list, tuple, set)):
        words = _text(value).split(",")
    reasons = tuple(_text(word).strip().lower() for word in words)
    if reasons in {("true",), ("1",)}:
        return ()
    if reasons in {("false",), ("0",), ("",), ("none",), ()}:
        return None
    for reason in reasons:
        status = reason.isascii() and reason.isdigit() and len(reason) == 3
        if not (status or reason in FAILURE_REASONS):
            raise SettingError.of(
                name,
                value,
                "True, False, HTTP statuses such as 503,"
                f" or reasons, of {', '.join(FAILURE_REASONS)}",
            )
    return reasons


class ExactUrls(NamedTuple):
    """The URLs that must never be lost to a false positive."""

    all: bool
    patterns: tuple[re.Pattern[str], ...] = ()

    def __bool__(self) -> bool:
        return self.all or bool(self.patterns)

    def match(self, url: str) -> bool:
        """Whether a URL is one of them."""
        if not self.patterns:
            return self.all
        return any(regex.search(url) for regex in self.patterns)

    @property
    def value(self) -> bool | list[str]:
        """The setting that gives them: True, False, or regular expressions."""
        return self.all or [regex.pattern for regex in self.patterns] or False


def check_exact(value: object, name: str) -> ExactUrls:
    """Read True, False, or regular expressions; nothing is False."""
    flag = FLAGS.get(_text(value).lower() if value else "false")
    patterns = check_patterns(value, name) if flag is None else ()
    return ExactUrls(bool(flag), patterns)


def check_start(value: object, name: str) -> str:
    """Read which start requests are scheduled."""
    if value not in START_POLICIES:
        raise SettingError.of(name, value, f"one of {', '.join(START_POLICIES)}")
    return str(value)


def check_patterns(value: object, name: str) -> tuple[re.Pattern[str], ...]:
    """Compile a list of regular expressions.

    A text (from ``-s NAME=VALUE``) is a JSON list or a single expression.
    """
    sources = value
    if isinstance(value, str):
        parsed = _parsed(value) if value.startswith(('["', "[]")) else None
        sources = [value] if parsed is None else parsed
    if not isinstance(sources, (list, tuple, set)):
        raise SettingError.of(name, value, "a list of expressions")
    patterns = []
    for source in sources:
        try:
            pattern = re.compile(source)
            pattern.search("")  # one of bytes cannot
            patterns.append(pattern)
        except (re.error, TypeError, OverflowError, RecursionError) as error:
            raise SettingError(
                f"{name}: {shown(source)} is not a regular expression: {error}"
            ) from error
    return tuple(patterns)


# The table

START = "BLOOMDUPE_"
"""How the names of our settings begin."""


def _of(default: object, check: Callable[..., object], name: str = "") -> Any:
    """Return a field for a setting, named as the setting is unless a name is given.

    None, in a project, is the default, too. ``check`` returns the value of the field
    for any other value.
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
    """Bytes that the blocks of the filter may take in memory; None: a quarter of the
    machine's memory."""
    exact: ExactUrls = _of(False, check_exact)  # noqa: RUF009 - a field
    """The URLs whose fingerprints are exact."""
    checkpoint_interval: float = _of(0.5, check_seconds)
    """Seconds between checkpoints while something changes."""
    start_requests: str = _of("resume", check_start)
    """Start requests to schedule: ``resume`` (those that were not scheduled yet),
    ``again`` (the same in an unfinished crawl; after a finished crawl, a new round
    begins with all of them), ``always`` (all, in every run)."""
    spider_attributes: bool = _of(True, check_flag)
    """Whether plain attributes of the spider are part of the checkpoints."""
    max_pending_per_slot: int | None = _of(None, check_integer)
    """Most pending requests of a slot; None: any number."""
    max_pages_per_slot: int | None = _of(None, check_integer)
    """Most requests accepted per slot over all runs of the job; None: any number."""
    max_failures: int = _of(10_000, partial(check_integer, least=0))
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
    wait: float | None = _of(None, partial(check_seconds, least=0.0))
    """Most seconds that a crawl sleeps until the next request is due; None: no
    limit."""
    retry_backoff: tuple[float, float, float] | None = _of(None, check_backoff)
    """Most seconds before the first retry, the factor by which they grow with each
    retry, and their limit; None: retries do not wait."""
    revisit: tuple[tuple[re.Pattern[str], float], ...] = _of([], check_revisit)
    """Pages that are revisited: after so many seconds."""
    redis_url: str | None = _of(None, lambda value, _: value)
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
        values: dict[str, Any] = {}
        for name, (attribute, default, check) in _TABLE.items():
            value = settings.get(name)
            if value is None or (default is None and value in ("", "None")):
                value = default  # as -s gives it
            values[attribute] = None if value is None else check(value, name)
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
