"""Export: a job as lines of JSON, which :mod:`bloomdupe.moving.exported` reads.

====== ===========================================================================
line   contents
====== ===========================================================================
first  ``bloomdupe``: 1, the format; ``id``; ``store``: the header of the store (its
       filter's parameters and secret key, spider, fingerprinter), and names of the
       layers imported into the filter; ``notes``: how the last run ended;
       ``requests``: the number of pending requests
then   each failed request, in the order of the store: ``failure``, its digest in
       hexadecimal, and the fields of a ``Failure``
then   each pending request, in the format of :mod:`bloomdupe.jobs.request_line`
then   ``filter``: the record ``filter`` of the store
then   each record of the databases ``pages``, ``journal`` and ``exact``: ``record``,
       the database's name; ``key`` in hexadecimal; ``value``, compressed by zlib, in
       base64; see :mod:`bloomdupe.store.format`
last   ``end``: the number of all records
====== ===========================================================================

A Bloom filter cannot list its URLs, so its pages are exported as bytes. The export
leaves out cookies, ``spider.state``, counts, and the positions in output files.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]

from bloomdupe._version import __version__
from bloomdupe.crawl.leases.failure import Failure
from bloomdupe.crawl.requests.layout import (
    BODY,
    CALLBACK,
    CLASS,
    ERRBACK,
    FUNCTIONS,
    HEADERS,
    META,
    OTHERS,
    PICKLE,
    PLAIN,
    PRIORITY,
)
from bloomdupe.crawl.requests.summary import elements_of, summary_of
from bloomdupe.errors import StoreMismatchError, UnserializableError
from bloomdupe.frontier.payload import long_url, url_of
from bloomdupe.frontier.pending_requests import pending_in
from bloomdupe.jobs.request_line import Defaults, read_request
from bloomdupe.store.format import DIGEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.store.store import Store

EXPORT_FORMAT = 1


@dataclass
class Exported:
    """Counts of an export."""

    requests: int = 0
    failures: int = 0
    """Failed requests."""
    pickled: int = 0
    """Requests that are pickles, which an import does not take."""
    urls: int = 0
    """URLs in the filter."""
    records: int = 0
    """Records of the filter."""


def export(
    store: Store,
    exported: Exported,
    watched: Callable[[Iterable[Any], int | None, str], Iterator[Any]],
) -> Iterator[str]:
    """Yield the lines, as of the last checkpoint, and count them.

    A crawl may be running: its file grows, because the export keeps pages from being
    reused. ``watched`` shows the progress by kind and total.
    """
    with store.snapshot() as snapshot:
        filter_ = snapshot.record("filter") or {}
        pending = snapshot.entries("queue") + snapshot.entries("later")
        header = store.header
        if "taken_over" in filter_:
            header = {**header, "taken_over": list(filter_["taken_over"])}
        yield json.dumps(
            {
                "bloomdupe": EXPORT_FORMAT,
                "written_by": f"bloomdupe {__version__}",
                "id": os.urandom(16).hex(),
                "store": header,
                "notes": filter_.get("notes", {}),
                "requests": pending,
            }
        )
        for digest, data in snapshot.failures():
            exported.failures += 1
            yield json.dumps(_failure(digest, Failure.unpacked(data)))
        for one in watched(pending_in(snapshot), pending, "requests"):
            exported.requests += 1
            exported.pickled += one.payload.startswith(PICKLE)
            yield json.dumps(_line(one))
        yield json.dumps({"filter": filter_})
        exported.urls = sum(layer[4] for layer in filter_["layers"])
        total = sum(snapshot.entries(name) for name in ("pages", "journal", "exact"))
        for name, key, value in watched(snapshot.raw_marks(), total, "records"):
            exported.records += 1
            packed = base64.b64encode(zlib.compress(value, 1)).decode()
            yield json.dumps({"record": name, "key": key.hex(), "value": packed})
        counted = {
            "failures": exported.failures,
            "requests": exported.requests,
            "records": exported.records,
        }
        yield json.dumps({"end": counted})


def _failure(digest: bytes, failure: Failure) -> dict[str, Any]:
    fields = failure._asdict()
    if failure.payload is not None:
        fields["payload"] = base64.b64encode(failure.payload).decode()
    return {"failure": digest.hex(), **fields}


def failure_of(given: dict[str, Any]) -> tuple[bytes, Failure]:
    """Read the line of a failed request.

    Raises :class:`ValueError`, :class:`TypeError` or :class:`LookupError` if it is
    invalid.
    """
    fields = dict(given)
    digest = bytes.fromhex(fields.pop("failure"))
    if fields["payload"] is not None:
        fields["payload"] = base64.b64decode(fields["payload"], validate=True)
    failure = Failure(**fields)
    wrong = [
        name
        for name, kinds in _FAILURE_FIELDS.items()
        if not isinstance(getattr(failure, name), kinds)
    ]
    if wrong or len(digest) != DIGEST_BYTES:
        raise ValueError(f"{wrong} cannot be")
    return digest, failure


_FAILURE_FIELDS: dict[str, type | tuple[type, ...]] = {
    "url": str,
    "reason": str,
    "status": (int, type(None)),
    "detail": str,
    "times": int,
    "time": (int, float),
    "parent": (str, type(None)),
    "waiting": bool,
    "slot": str,
    "priority": int,
}


def _line(one: PendingRequest) -> dict[str, Any]:
    """Return a request, with its payload if the fields do not describe it fully."""
    ours: dict[str, Any] = {"slot": one.slot, "start": one.start, "age": one.age}
    if one.not_before is not None:
        ours["not_before"] = one.not_before
    payload = one.payload
    try:
        fields = _fields(payload)
        if fields is not None and _says_it_all(fields, payload):
            return {**fields, **ours}
        summary = summary_of(payload)
        fields = {
            "url": summary.url,
            "method": summary.method,
            "callback": summary.callback,
            "priority": summary.priority,
        }
    except UnserializableError:
        fields = {"url": url_of(payload)}
    return {**fields, **ours, "payload": base64.b64encode(payload).decode()}


def _says_it_all(fields: dict[str, Any], payload: bytes) -> bool:
    try:
        text = json.dumps(fields)
        return read_request(text, Defaults(), None).payload == payload
    except (TypeError, ValueError):
        return False


def _fields(payload: bytes) -> dict[str, Any] | None:
    """Return a request in JSON's types; None if it has a value of another type."""
    if payload.startswith(PICKLE):
        return None
    elements = elements_of(payload)
    if len(elements) > 5:  # knowledge about a page that comes again
        return None
    elements += [None] * (5 - len(elements))
    short, depth, common, rest, others = elements
    others = dict(others or {})
    if not others.keys().isdisjoint((CLASS, OTHERS, FUNCTIONS)):
        return None
    url = long_url(short)
    fields: dict[str, Any] = {"url": url, "callback": others.pop(CALLBACK, "parse")}
    if fields["callback"] == 0:
        fields["callback"] = None
    if ERRBACK in others:
        fields["errback"] = others.pop(ERRBACK)
    headers = dict(others.pop(HEADERS, {}))
    if common is not None:
        headers[b"Referer"] = [url[:common].encode("latin-1") + (rest or b"")]
    try:
        fields |= _texts(headers, others.pop(BODY, b""))
    except (UnicodeDecodeError, AttributeError):
        return None
    meta = dict(others.pop(META, {}))
    if depth is not None:
        meta = {"depth": depth, **meta}
    if meta:
        fields["meta"] = meta
    fields["priority"] = others.pop(PRIORITY, 0)
    fields |= {PLAIN[number]: value for number, value in others.items()}
    return fields if _is_json(list(fields.values())) else None


def _texts(headers: dict[bytes, list[bytes]], body: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if headers:
        fields["headers"] = {
            name.decode(): [value.decode() for value in values]
            for name, values in headers.items()
        }
    if body:
        fields["body"] = body.decode()
    return fields


def _is_json(value: object) -> bool:
    """Whether a value comes back from JSON as it was."""
    if isinstance(value, msgpack.ExtType):
        return False
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(type(key) is str and _is_json(part) for key, part in value.items())
    return value is None or type(value) in (str, int, float, bool)


def check_format(header: dict[str, Any]) -> None:
    """Refuse an export that a later version has written."""
    if header["bloomdupe"] != EXPORT_FORMAT:
        raise StoreMismatchError(
            f"this export is written in format {header['bloomdupe']!r} by"
            f" {header.get('written_by')}; this version of bloomdupe reads format"
            f" {EXPORT_FORMAT}"
        )
