"""JobSettings: the BLOOMDUPE_* settings of a crawl, read once and checked."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import SettingError
from bloomdupe.filter.allowance import check_memory
from bloomdupe.filter.parameters import check_confirm, check_growth
from bloomdupe.filter.sizing import check_capacity, check_fpp

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

__all__ = ["DEFAULTS", "FAILURE_REASONS", "JobSettings", "check_reasons"]

DEFAULTS: dict[str, Any] = {
    "BLOOMDUPE_EXPECTED_URLS": 10_000_000,
    "BLOOMDUPE_FPP": 1e-6,
    "BLOOMDUPE_FILTER_MEMORY": None,
    "BLOOMDUPE_GROWTH": "grow",
    "BLOOMDUPE_CONFIRM": 0,
    "BLOOMDUPE_EXACT_URLS": [],
    "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.5,
    "BLOOMDUPE_SERIALIZER": "msgpack",
    "BLOOMDUPE_START_REQUESTS": "resume",
    "BLOOMDUPE_FEED_CHANGED": "refuse",
    "BLOOMDUPE_COOKIES": True,
    "BLOOMDUPE_MAX_RETRY_AFTER": 300,
    "BLOOMDUPE_ALLOW_NETWORK_FS": False,
    "BLOOMDUPE_EARLY_DROP": True,
    "BLOOMDUPE_DIRECT_OUTPUT": True,
    "BLOOMDUPE_MAX_PENDING_PER_SLOT": None,
    "BLOOMDUPE_MAX_PAGES_PER_SLOT": None,
    "BLOOMDUPE_MAX_FAILURES": 10_000,
    "BLOOMDUPE_RETRY_FAILED": False,
    "BLOOMDUPE_PROGRESS_INTERVAL": 60,
    "BLOOMDUPE_METRICS_PORT": None,
    "BLOOMDUPE_METRICS_HOST": "127.0.0.1",
    "BLOOMDUPE_STAY": False,
    "BLOOMDUPE_WAIT": None,
    "BLOOMDUPE_RETRY_BACKOFF": None,
    "BLOOMDUPE_REVISIT": [],
    "BLOOMDUPE_REVISIT_BOUNDS": (3_600, 30 * 86_400),
    "BLOOMDUPE_REVISIT_ITEMS": "changed",
    "BLOOMDUPE_REDIS_URL": None,
    "BLOOMDUPE_REDIS_PARTITIONS": 64,
    "BLOOMDUPE_REDIS_SLOT_PARTS": {},
    "BLOOMDUPE_REDIS_LEASE": 30,
    "BLOOMDUPE_REDIS_REPLICAS": 0,
    "BLOOMDUPE_REDIS_WORKER": None,
}

LONGEST_NAME = 200
"""Characters of a worker's name."""
SERIALIZERS = ("msgpack", "pickle")
START_POLICIES = ("resume", "again", "always")
PORTS = 1 << 16
SLOT = re.compile(r"[^A-Z/:@?#\s]+|[^./]+")
"""A host, or another name of a slot that cannot be meant for a host."""
FEED_POLICIES = ("refuse", "accept")
ITEM_POLICIES = ("changed", "always")
ADAPTIVE = "adaptive"
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
failed download (four kinds), an exception in the project's own code."""


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
    growth: str
    confirm: float
    exact_urls: tuple[re.Pattern[str], ...]
    checkpoint_interval: float
    """Seconds between checkpoints while something changes."""
    serializer: str
    """Format of stored requests: ``msgpack``, or ``pickle`` for other objects."""
    start_requests: str
    """Start requests to schedule: ``resume`` (those that were not scheduled yet),
    ``again`` (the same in an unfinished crawl; after a finished crawl, a new round
    begins with all of them), ``always`` (all, in every run)."""
    feed_changed: str
    """Reaction to a feed that was changed between two runs: ``refuse`` to start, or
    ``accept`` it as it is."""
    cookies: bool
    """Whether cookies are part of the checkpoints; if not, they are not kept."""
    max_retry_after: float
    """Longest Retry-After of a server that is obeyed, in seconds; 0: never."""
    allow_network_fs: bool
    """Whether the store may be on a network file system."""
    early_drop: bool
    """Whether duplicate links are dropped directly after the spider."""
    direct_output: bool
    """Whether the output of callbacks is processed without needless tasks."""
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
    metrics_port: int | None
    """Port for Prometheus; 0: any free port, None: no port."""
    metrics_host: str
    """The address to listen on."""
    stay: bool
    """Whether the crawl stays open when nothing is pending."""
    wait: float | None
    """Most seconds that a crawl sleeps until the next request is due; None: no
    limit."""
    retry_backoff: tuple[float, float, float] | None
    """Most seconds before the first retry, the factor by which they grow with each
    retry, and their limit; None: retries do not wait."""
    revisit: tuple[tuple[re.Pattern[str], float | str], ...]
    """Pages that are visited again: after so many seconds, or ``adaptive``."""
    revisit_bounds: tuple[float, float]
    """Least and most seconds between two adaptive visits to a page."""
    revisit_items: str
    """Items to keep from repeated visits: ``changed`` (items of pages that have
    changed) or ``always``."""
    redis_url: str | None
    """Server of a crawl that several workers share; None: a single process."""
    redis_partitions: int
    """Number of partitions that the workers divide among themselves."""
    redis_slot_parts: dict[str, int]
    """The number of parts of each slot that several workers crawl."""
    redis_lease: float
    """Seconds until other workers continue the work of a worker that is silent."""
    redis_replicas: int
    """Number of replicas that must have new requests before they count."""
    redis_worker: str | None
    """The name under which ``spider.state`` is kept; None: it ends with the worker."""
    debug: bool
    """Log every duplicate (Scrapy's ``DUPEFILTER_DEBUG``)."""

    def is_exact(self, url: str) -> bool:
        """Whether the fingerprint of a URL must be kept exactly."""
        return any(regex.search(url) for regex in self.exact_urls)

    @classmethod
    def read(cls, settings: BaseSettings) -> JobSettings:
        """Read a project's settings; raise :class:`SettingError` for a wrong value."""

        def given(name: str) -> tuple[Any, str]:
            value = settings.get(name)
            return DEFAULTS[name] if value is None else value, name

        return cls(
            directory=_directory(settings.get("JOBDIR")),
            capacity=check_capacity(*given("BLOOMDUPE_EXPECTED_URLS")),
            fpp=check_fpp(*given("BLOOMDUPE_FPP")),
            filter_memory=check_memory(*given("BLOOMDUPE_FILTER_MEMORY")),
            growth=check_growth(*given("BLOOMDUPE_GROWTH")),
            confirm=check_confirm(*given("BLOOMDUPE_CONFIRM")),
            exact_urls=_patterns(*given("BLOOMDUPE_EXACT_URLS")),
            checkpoint_interval=_seconds(*given("BLOOMDUPE_CHECKPOINT_INTERVAL")),
            serializer=_choice(*given("BLOOMDUPE_SERIALIZER"), SERIALIZERS),
            start_requests=_choice(*given("BLOOMDUPE_START_REQUESTS"), START_POLICIES),
            feed_changed=_choice(*given("BLOOMDUPE_FEED_CHANGED"), FEED_POLICIES),
            cookies=_flag(*given("BLOOMDUPE_COOKIES")),
            max_retry_after=_seconds(
                *given("BLOOMDUPE_MAX_RETRY_AFTER"), allow_zero=True
            ),
            allow_network_fs=_flag(*given("BLOOMDUPE_ALLOW_NETWORK_FS")),
            early_drop=_flag(*given("BLOOMDUPE_EARLY_DROP")),
            direct_output=_flag(*given("BLOOMDUPE_DIRECT_OUTPUT")),
            max_pending_per_slot=_limit(*given("BLOOMDUPE_MAX_PENDING_PER_SLOT")),
            max_pages_per_slot=_limit(*given("BLOOMDUPE_MAX_PAGES_PER_SLOT")),
            max_failures=_number(*given("BLOOMDUPE_MAX_FAILURES")),
            retry_failed=check_reasons(*given("BLOOMDUPE_RETRY_FAILED")),
            progress_interval=_seconds(
                *given("BLOOMDUPE_PROGRESS_INTERVAL"), allow_zero=True
            ),
            metrics_port=_port(*given("BLOOMDUPE_METRICS_PORT")),
            metrics_host=_host(*given("BLOOMDUPE_METRICS_HOST")),
            stay=_flag(*given("BLOOMDUPE_STAY")),
            wait=_wait(*given("BLOOMDUPE_WAIT")),
            retry_backoff=_backoff(*given("BLOOMDUPE_RETRY_BACKOFF")),
            revisit=_revisit(*given("BLOOMDUPE_REVISIT")),
            revisit_bounds=_bounds(*given("BLOOMDUPE_REVISIT_BOUNDS")),
            revisit_items=_choice(*given("BLOOMDUPE_REVISIT_ITEMS"), ITEM_POLICIES),
            redis_url=given("BLOOMDUPE_REDIS_URL")[0] or None,
            redis_partitions=_count(*given("BLOOMDUPE_REDIS_PARTITIONS")),
            redis_slot_parts=_slot_parts(
                *given("BLOOMDUPE_REDIS_SLOT_PARTS"),
                given("BLOOMDUPE_REDIS_PARTITIONS")[0],
            ),
            redis_lease=_seconds(*given("BLOOMDUPE_REDIS_LEASE")),
            redis_replicas=_number(*given("BLOOMDUPE_REDIS_REPLICAS")),
            redis_worker=_name(*given("BLOOMDUPE_REDIS_WORKER")),
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


def _directory(jobdir: object) -> Path | None:
    if not jobdir:
        return None
    path = Path(str(jobdir)).absolute()  # a spider may change the working directory
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


def _wait(value: object, name: str) -> float | None:
    return None if value is None else _seconds(value, name, allow_zero=True)


def _parsed(value: object) -> object:
    """Return a value, or the value of a text in JSON; None if it is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _revisit(
    value: object, name: str
) -> tuple[tuple[re.Pattern[str], float | str], ...]:
    """Read a list of pairs; a text is parsed as JSON."""
    pairs = _parsed(value)
    if not isinstance(pairs, (list, tuple)):
        raise SettingError(
            f"{name} = {value!r}: expected a list of pairs, such as"
            ' [(r"/news/", "adaptive"), (r".*", 86400)]'
        )
    rules = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise SettingError(
                f"{name}: {pair!r} is no pair of a regular expression and seconds, or"
                f" {ADAPTIVE!r}"
            )
        (pattern,) = _patterns([pair[0]], name)
        rule = pair[1] if pair[1] == ADAPTIVE else _seconds(pair[1], name)
        rules.append((pattern, rule))
    return tuple(rules)


def _bounds(value: object, name: str) -> tuple[float, float]:
    """Read two numbers of seconds; a text looks like ``3600,86400``."""
    parts = value.strip("[()]").split(",") if isinstance(value, str) else value
    try:
        least, most = (float(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        least = most = math.nan
    if not 0 < least <= most < math.inf:
        raise SettingError(
            f"{name} = {value!r}: expected two positive numbers of seconds, the"
            " smaller one first, such as (3600, 2592000)"
        )
    return least, most


def _backoff(value: object, name: str) -> tuple[float, float, float] | None:
    """Read base, factor and limit; a text looks like ``1,2,300``."""
    if value is None:
        return None
    parts = value.strip("[()]").split(",") if isinstance(value, str) else value
    try:
        base, factor, limit = (float(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        base = factor = limit = math.nan
    if not (0 < base <= limit < math.inf and 1 <= factor < math.inf):
        raise SettingError(
            f"{name} = {value!r}: expected three numbers, such as (1, 2, 300): seconds"
            " that the first retry waits, a factor of at least 1, seconds at most"
        )
    return base, factor, limit


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


def _count(value: object, name: str) -> int:
    number = _number(value, name)
    if not number:
        raise SettingError(f"{name} = {value!r}: expected a whole number of at least 1")
    return number


def _slot_parts(value: object, name: str, partitions: object) -> dict[str, int]:
    """Read a dictionary of slots and numbers of parts; a text is parsed as JSON."""
    found = _parsed(value)
    if not isinstance(found, Mapping):
        raise SettingError(
            f"{name} = {value!r}: expected a dictionary of slots (hosts) and numbers of"
            ' parts, such as {"big.example": 8}'
        )
    for slot, parts in found.items():
        if not isinstance(slot, str) or not SLOT.fullmatch(slot):
            raise SettingError(
                f"{name}: {slot!r} is no slot of the downloader; a slot is a host in"
                " lower case, without scheme, port and path, such as 'big.example', or"
                " the value of meta['download_slot']"
            )
        if isinstance(parts, bool) or not isinstance(parts, int) or parts < 2:
            raise SettingError(
                f"{name}: {slot!r} has {parts!r} parts; expected a whole number of at"
                " least 2, or leave the slot out"
            )
        most = _count(partitions, "BLOOMDUPE_REDIS_PARTITIONS")
        if parts > most:
            raise SettingError(
                f"{name}: {slot!r} has {parts} parts, and BLOOMDUPE_REDIS_PARTITIONS ="
                f" {most}: each part lies in a partition of its own; take fewer parts,"
                " or, for a new crawl, more partitions"
            )
    return dict(found)


def _number(value: object, name: str) -> int:
    text = str(value).replace("_", "")
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise SettingError(
            f"{name} = {value!r}: expected a whole number, or 0 for none"
        )
    return int(text)


def _port(value: object, name: str) -> int | None:
    if value is None or str(value) in ("", "None"):
        return None
    text = str(value)
    if isinstance(value, bool) or not (text.isdigit() and int(text) < PORTS):
        raise SettingError(
            f"{name} = {value!r}: expected a port from 0 (any that is free) to 65535,"
            " or None"
        )
    if find_spec("prometheus_client") is None:
        raise SettingError(
            f"{name} needs the package prometheus_client, which is not installed:"
            " pip install 'bloomdupe[metrics]'"
        )
    return int(text)


def _host(value: object, name: str) -> str:
    try:
        ipaddress.ip_address(str(value))
    except ValueError as error:
        raise SettingError(
            f"{name} = {value!r}: expected an IP address to listen on: 127.0.0.1 is for"
            " this machine only, 0.0.0.0 for all"
        ) from error
    return str(value)


def check_reasons(value: object, name: str) -> tuple[str, ...] | None:
    """Read True, False, or reasons: a list, or a text with commas.

    Returns () for all reasons, None for False; raises :class:`SettingError`.
    """
    words = value if isinstance(value, (list, tuple, set)) else str(value).split(",")
    reasons = tuple(str(word).strip().lower() for word in words)
    if reasons in {("true",), ("1",)}:
        return ()
    if reasons in {("false",), ("0",), ("",), ("none",), ()}:
        return None
    for reason in reasons:
        status = reason.isascii() and reason.isdigit() and len(reason) == 3
        if not (status or reason in FAILURE_REASONS):
            raise SettingError(
                f"{name} = {value!r}: expected True, False, HTTP statuses such as 503,"
                f" or reasons, of {', '.join(FAILURE_REASONS)}"
            )
    return reasons


def _name(value: object, name: str) -> str | None:
    if value is None or (isinstance(value, str) and 0 < len(value) <= LONGEST_NAME):
        return value
    raise SettingError(
        f"{name} = {value!r}: expected a text of 1 to {LONGEST_NAME} characters, or"
        " None"
    )


def _choice(value: object, name: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise SettingError(f"{name} = {value!r}: expected one of {', '.join(choices)}")
    return str(value)


def _patterns(value: object, name: str) -> tuple[re.Pattern[str], ...]:
    """Compile a list of regular expressions.

    A text (from ``-s NAME=VALUE``) is a JSON list or a single expression.
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
