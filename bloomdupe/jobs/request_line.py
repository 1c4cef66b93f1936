"""Requests as lines of text: a URL alone, or a JSON object, see docs/file-format.md."""

from __future__ import annotations

import base64
import binascii
import sys
from contextlib import nullcontext
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

from scrapy import Request

from bloomdupe.crawl.retries import TIME_KEYS, YEAR_10000, checked_rule
from bloomdupe.errors import SettingError, shown
from bloomdupe.foreign import json_of
from bloomdupe.frontier.sent_request import SentRequest, host_of
from bloomdupe.requests.layout import changed, fields_of
from bloomdupe.requests.serializer import Serializer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bloomdupe.jobs.held import Problems
    from bloomdupe.jobs.project import Project

LONGEST = 16 << 20
"""Bytes of a line, the body of a request in it included."""
SCHEMES = frozenset({"data", "file", "ftp", "http", "https", "s3"})
"""Schemes for which Scrapy has a downloader."""
NEED_HOSTS = frozenset({"ftp", "http", "https"})

_FIELDS: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "callback": (str, type(None)),
    "errback": (str, type(None)),
    "slot": (str,),
    "start": (bool,),
    "not_before": (int, float),
    "payload": (str,),
    "method": (str,),
    "headers": (dict,),
    "body": (str,),
    "cookies": (dict, list),
    "meta": (dict,),
    "encoding": (str,),
    "priority": (int,),
    "dont_filter": (bool,),
    "flags": (list,),
    "cb_kwargs": (dict,),
}
"""Fields of a line, and their types."""
_OURS = frozenset([*_FIELDS][:7])
"""Those that are no arguments of ``scrapy.Request``, or other ones."""

_serializer = Serializer(None)


class Line(NamedTuple):
    """A line that is neither empty nor a comment."""

    where: str
    """Its number, or itself if it came from another place than a file."""
    text: str


def lines_of(
    urls: Sequence[str], file: str | None, problems: Problems
) -> Iterator[Line]:
    """Return URLs, and then the lines of a file; ``-`` is standard input.

    Raises :class:`SettingError` if there is neither, or a file that cannot be read.
    """
    if not urls and file is None:
        raise SettingError("no URLs are given: name some, or a file with --from")
    lines = _lines_of(file, problems) if file is not None else ()
    return chain((Line(url, url) for url in urls), lines)


def _lines_of(file: str, problems: Problems) -> Iterator[Line]:
    if file == "-" and sys.stdin is None:  # it was closed before the program began
        raise SettingError("cannot read standard input: it is closed")
    here = nullcontext(sys.stdin.buffer) if file == "-" else None
    try:
        with here or Path(file).open("rb") as opened:
            yield from _lines_in(opened, problems)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise SettingError(f"cannot read {file}: {reason}") from error


def _lines_in(file: BinaryIO, problems: Problems) -> Iterator[Line]:
    """Yield the lines of a file that are text; other lines become ``problems``.

    Empty lines, and lines that begin with ``#``, are left out. Memory is bounded, also
    if there is no end of line at all.
    """
    for number in count(1):
        raw, where = file.readline(LONGEST), f"line {number:,}"
        if not raw:
            return
        if len(raw) == LONGEST and not raw.endswith(b"\n"):
            raise ValueError(
                f"{where} does not end within {LONGEST:,} bytes: this is no text"
            )
        try:
            text = raw.decode().strip().removeprefix("\ufeff")
        except UnicodeDecodeError:
            problems.add(where, "it is not UTF-8")
            continue
        if text and not text.startswith("#"):
            yield Line(where, text)


def read_all(
    lines: Iterable[Line], project: Project, problems: Problems, **fields: Any
) -> Iterator[SentRequest]:
    """Yield the requests of lines; lines that cannot be read become ``problems``.

    So do lines with a callback or errback that the spider does not have. A line that
    lacks any of these ``fields`` has it, too.
    """
    for line in lines:
        try:
            yield _read(line.text, fields, project)
        except ValueError as error:
            problems.add(line.where, str(error))


def _read(text: str, fields: dict[str, Any], project: Project) -> SentRequest:
    """Return the request of a line; raise :class:`ValueError` with the reason."""
    given: dict[str, Any] = {"url": text}
    if text.startswith("{"):
        try:
            given = json_of(text)
        except ValueError as error:
            raise ValueError(f"it is no JSON: {error}") from error
        _check_fields(given)
    given = {**fields, **given}
    if "payload" in given:
        try:
            payload = base64.b64decode(given["payload"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"'payload' is no base64: {error}") from error
        request = project.request_of(payload)
    else:
        arguments = {name: given[name] for name in given.keys() - _OURS}
        request = checked(given["url"], **arguments)
        callback = given.get("callback", "parse")
        payload = _payload_for(request, callback, given.get("errback"))
    stored = fields_of(payload)
    for use in ("callback", "errback"):
        if isinstance(name := stored.get(use), str):
            project.check_method(use, name)
    slot, host = given.get("slot", slot_of(request)), host_of(request.url)
    return SentRequest(
        slot,
        request.priority,
        payload,
        (project.key_of(request),),
        given.get("start", False),
        given.get("not_before"),
        request.dont_filter,
        host=None if host == slot else host,
        added=True,
    )


def checked(url: str, **arguments: Any) -> Request:
    """Return a request if Scrapy can fetch its URL."""
    parts = urlsplit(url)  # raises ValueError
    scheme, has_blanks = parts.scheme.lower(), any(map(str.isspace, url))
    no_host = scheme in NEED_HOSTS and not parts.hostname
    if has_blanks or no_host or scheme not in SCHEMES:
        raise ValueError(f"it is no URL such as https://example.com/: {shown(url)}")
    try:
        return Request(url, **arguments)
    except (TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"it makes no request: {error}") from error


def _payload_for(request: Request, callback: str | None, errback: str | None) -> bytes:
    """Store a request without callbacks, with these callbacks added.

    ``parse`` needs no name. None is ``NO_CALLBACK`` for a callback, and none at all
    for an errback. Raises :class:`ValueError` for a ``meta`` that cannot be satisfied.
    """
    if not request.meta.keys().isdisjoint(TIME_KEYS):
        raise ValueError(
            f"{' and '.join(TIME_KEYS)} are for spiders: give 'not_before', a Unix"
            " time, beside 'url'"
        )
    checked_rule(request)
    name = None if callback == "parse" else callback or 0
    return changed(_serializer.dump(request), callback=name, errback=errback)


def slot_of(request: Request) -> str:
    """Return the slot of a request, as Scrapy's downloader assigns it."""
    return str(request.meta.get("download_slot") or host_of(request.url))


def _check_fields(given: object) -> None:
    if not isinstance(given, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - of a line
    for name, value in given.items():
        kinds = _FIELDS.get(name)
        if kinds is None:
            raise ValueError(f"a request has no {name!r}")
        if type(value) not in kinds:
            raise ValueError(f"{name!r} cannot be {shown(value)}")
    if "url" not in given:
        raise ValueError("it has no 'url'")
    if not 0 <= given.get("not_before", 0) < YEAR_10000:
        raise ValueError(f"'not_before' cannot be {given['not_before']!r}")
