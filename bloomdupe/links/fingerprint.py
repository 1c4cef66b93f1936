"""Scrapy's own fingerprint of a request, several times as fast for most URLs.

The fingerprints of scrapy-redis are as fast: they hash the same URL with less around
it.

Scrapy hashes a JSON text with the *canonical* URL in it (w3lib's ``canonicalize_url``:
query sorted, escapes normalised, and so on), which takes 20 to 30 µs. For most URLs a
regular expression can tell that they are canonical except for the order of the query.
Then little more than the hash is left to do. All other URLs, and requests with a body
or with another method than GET, take Scrapy's way. The bytes are the same in every
case.
"""

from __future__ import annotations

import json
import re
from hashlib import sha1
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name
from scrapy.utils.request import RequestFingerprinter
from w3lib.url import canonicalize_url

from bloomdupe.links.safe_urls import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings
    from scrapy.utils.request import RequestFingerprinterProtocol


class ScrapyRedisFingerprinter:
    """Makes the fingerprints of scrapy-redis 0.8 to 0.9."""

    bloomdupe_early = True

    def fingerprint(self, request: Request) -> bytes:
        """Return the fingerprint of a request."""
        text = json.dumps(
            {
                "body": request.body.hex(),
                "method": request.method,
                "url": canonicalize_url(request.url),
            }
        )
        return sha1(text.encode()).digest()  # noqa: S324 - as scrapy-redis does


_PATH = r"[A-Za-z0-9._~!$&'()*+,=:@/-]*"
_PATH_ESCAPE = r"%(?:2[02F]|[89A-F][0-9A-F])"
_NAME = r"[A-Za-z0-9._~-]+"
_VALUE = r"[A-Za-z0-9._~+-]*"
_VALUE_ESCAPE = r"%(?:2[1-9A-CF]|3[A-F]|40|5[BD]|7C|[89A-F][0-9A-F])"
_canonical = re.compile(
    rf"({ORIGIN}(/{_PATH}(?:{_PATH_ESCAPE}{_PATH})*"
    rf"(?:\?(?:((?:{_NAME}={_VALUE}&)+{_NAME}={_VALUE})"
    rf"|{_NAME}={_VALUE}(?:{_VALUE_ESCAPE}{_VALUE})*))?)?)(?:#.*)?",
    re.DOTALL,
).fullmatch

_TEXT = b'{"body": "", "headers": {}, "method": "GET", "url": "%b"}'
"""Text that Scrapy hashes for a GET request."""

_TEXTS: dict[type, bytes] = {
    RequestFingerprinter: _TEXT,
    ScrapyRedisFingerprinter: b'{"body": "", "method": "GET", "url": "%b"}',
}
"""Text that each of these classes hashes for a GET request."""

_PROBES = (
    "http://example.com/",
    "https://example.com:8000/a,b/c%20d/e.html?b=1&b=2&c=d+e#top",
)


def is_plain(fingerprinter: RequestFingerprinterProtocol) -> bool:
    """Whether it depends on nothing but URL, method, body and ``verbatim_url``."""
    return type(fingerprinter) in _TEXTS


def is_known_early(
    fingerprinter: RequestFingerprinterProtocol, settings: BaseSettings
) -> bool:
    """Whether a request has its final fingerprint when the spider yields it.

    It has if the fingerprint depends on nothing but URL, method, body, callback, and
    the ``meta`` that the spider itself has set. This holds for Scrapy's own
    fingerprinter. The fingerprinter of scrapy-poet adds the dependencies of the
    callback, and ``meta["page_params"]``, to a fingerprinter that a setting names. Any
    other class can declare it by the attribute ``bloomdupe_early``.

    It does not hold for scrapy-zyte-api: its fingerprint depends on the ``meta`` that
    its own spider middleware, which comes later, sets, and on session pools, which are
    the project's code. It also keeps the first fingerprint that it has made of a
    request.
    """
    class_: object = type(fingerprinter)
    if global_object_name(class_) == OF_POET:
        class_ = load_object(settings.get(BASE_OF_POET) or RequestFingerprinter)
    early = getattr(class_, "bloomdupe_early", False) is True
    return early or class_ is RequestFingerprinter


OF_POET = "scrapy_poet._request_fingerprinter.ScrapyPoetRequestFingerprinter"
BASE_OF_POET = "SCRAPY_POET_REQUEST_FINGERPRINTER_BASE_CLASS"
"""The setting that names the fingerprinter that it extends; else it is Scrapy's own."""


def fingerprint_function(
    fingerprinter: RequestFingerprinterProtocol,
) -> Callable[[Request], bytes]:
    """Return the fastest function that equals the fingerprinter's."""
    text = _TEXTS.get(type(fingerprinter))
    if text is not None and all(
        _hash(url, text) == fingerprinter.fingerprint(Request(url)) for url in _PROBES
    ):
        return _fast(fingerprinter.fingerprint, text)
    return fingerprinter.fingerprint


def _fast(slow: Callable[[Request], bytes], text: bytes) -> Callable[[Request], bytes]:
    def fingerprint(request: Request) -> bytes:
        if (
            request.method == "GET"
            and not request.body
            and not request.meta.get("verbatim_url")
        ):
            hashed = _hash(request.url, text)
            if hashed is not None:
                return hashed
        return slow(request)

    return fingerprint


def _hash(url: str, around: bytes = _TEXT) -> bytes | None:
    """Return the fingerprint of a GET request; None if the URL needs the slow way."""
    found = _canonical(url)
    if found is None or "/." in url:  # it may have dot segments
        return None
    text, path, fields = found.groups()
    if path is None:
        text += "/"
    elif fields is not None:
        # By name, then value: "=" must sort before all other characters of a name.
        given = fields.replace("=", "\0").split("&")
        ordered = sorted(given)
        if given != ordered:
            text = text[: -len(fields)] + "&".join(ordered).replace("\0", "=")
    return sha1(around % text.encode()).digest()  # noqa: S324 - as Scrapy does
