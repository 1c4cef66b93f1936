"""Setting values: checks the value of a setting, and returns it in the form we use.

Each function raises :class:`~bloomdupe.errors.SettingError`, which names the setting
and the value. A text comes from the command line, ``-s NAME=VALUE``.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from bloomdupe.errors import SettingError, shown

LONGEST_WAIT = 1e9
"""Seconds: 31 years, a time for which every clock and timer has room."""
MOST_DIGITS = 18
"""Of a whole number: it fits in 64 bits."""
WHOLE = f"a whole number (of {MOST_DIGITS} digits at most)"
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


def check_directory(jobdir: object) -> Path | None:
    """Return the directory of the store in a ``JOBDIR``; None without one."""
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


def check_wait(value: object, name: str) -> float | None:
    """Read a number of seconds, or None."""
    return None if value is None else check_seconds(value, name, least=0.0)


def _parsed(value: object) -> object:
    """Return a value, or the value of a text in JSON; None if it is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str:
    """Return a value as text; Python turns no number of thousands of digits into it."""
    try:
        return str(value)
    except ValueError:
        return shown(value)


def _whole(value: object) -> int | None:
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


def check_backoff(value: object, name: str) -> tuple[float, float, float] | None:
    """Read base, factor and limit; a text looks like ``1,2,300``."""
    if value is None:
        return None
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


def check_whole(value: object, name: str, *, least: int = 1) -> int | None:
    """Read a whole number; None stands for no limit."""
    if value is None:
        return None
    number = _whole(value)
    if number is None or number < least:
        raise SettingError.of(name, value, f"{WHOLE} of at least {least}")
    return number


def check_address(value: object, name: str) -> tuple[str, int] | None:
    """Read the address of the metrics: a port, or an IP address and a port.

    The metrics need a package. None for no metrics.
    """
    if value in (None, "", "None"):
        return None
    host, _, port = _text(value).rpartition(":")
    number = _whole(value if isinstance(value, bool) else port)
    host = host.strip("[]") or "127.0.0.1"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        number = None
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
    return host, number


def check_reasons(value: object, name: str) -> tuple[str, ...] | None:
    """Read True, False, or reasons: a list, or a text with commas.

    Returns () for all reasons, None for False; raises :class:`SettingError`.
    """
    words = value if isinstance(value, (list, tuple, set)) else _text(value).split(",")
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
