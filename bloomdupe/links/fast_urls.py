"""FastUrls: ``urljoin`` and ``safe_url_string``, several times as fast for most URLs.

Scrapy joins each link with the URL of its page (``urllib.parse.urljoin``, 3 µs) and
escapes unsafe characters in it (w3lib's ``safe_url_string``, 4 µs). Most links have
nothing to escape, and no dot segments; a regular expression can tell. Then the link is
safe as it is, and joining it is adding it to a part of the page's URL. All other links
take the usual way. The results are the same in every case.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib import parse

from scrapy import signals
from w3lib import url as w3lib_url

from bloomdupe.inside_scrapy.imported_names import ImportedNames

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

__all__ = ["FastUrls", "safe_url_string", "urljoin"]

_ORIGIN = r"https?://[a-z0-9_.-]+(?::(?:[1-5][0-9]{4}|6[0-4][0-9]{3}|[1-9][0-9]{0,3}))?"
_LETTER = r"A-Za-z0-9._~!$&()*+,=@%\-"
"""Characters that stay as they are in each part of a URL."""
_QUERY = rf"\?[{_LETTER};:/?]+"
_FRAGMENT = rf"#[{_LETTER};:/?']+"
_REST = rf"(?:{_QUERY})?(?:{_FRAGMENT})?"
_SEGMENT = rf"(?!\.)[{_LETTER}']+"

_is_safe = re.compile(rf"{_ORIGIN}(?:/[{_LETTER};:/']*{_REST})?").fullmatch

# What urljoin() makes of these kinds of links differs by the part of the base that they
# replace. It drops an empty query, an empty fragment and empty parameters (";").
_link = re.compile(
    rf"(?P<whole>{_ORIGIN}(?:/[{_LETTER}:/']*{_REST})?)"
    rf"|(?P<path>/(?!/)[{_LETTER}:/']*{_REST})"
    rf"|(?P<name>{_SEGMENT}(?:/{_SEGMENT})*/?{_REST})"
    rf"|(?P<query>{_QUERY}(?:{_FRAGMENT})?)"
    rf"|(?P<fragment>{_FRAGMENT})"
).fullmatch
_base = re.compile(
    rf"((({_ORIGIN})/(?:{_SEGMENT}/)*)(?:{_SEGMENT})?)({_QUERY})?(?:{_FRAGMENT})?"
).fullmatch

_ASCII = "".join(map(chr, range(0x21, 0x7F)))

_ANYTHING = "az/AZ09-._~!$&()*+,=@%:"
PROBES = (
    "http://a.example",
    f"https://a-b_c.example:8000/{_ANYTHING};'?{_ANYTHING};/?#{_ANYTHING};/?'",
)
"""Safe URLs that show whether this w3lib leaves them as they are."""
PROBED_BASE = f"https://a-b_c.example:8000/{_ANYTHING[:-1]}?{_ANYTHING}#{_ANYTHING}"
PROBED_LINKS = (
    "http://b.example/c//d",
    f"/{_ANYTHING}'",
    "e/f.html?g=h;i#j",
    "?k=l/../m#n",
    "#o",
)
"""Links, likewise, for this Python's urljoin()."""


def safe_url_string(
    url: str | bytes,
    encoding: str = "utf8",
    path_encoding: str = "utf8",
    quote_path: bool = True,
) -> str:
    """Return the result of w3lib's function of this name."""
    if (
        type(url) is str
        and _is_safe(url)
        and path_encoding == "utf8"
        and _keeps_ascii(encoding)
    ):
        return url
    return w3lib_url.safe_url_string(url, encoding, path_encoding, quote_path)


def urljoin(base: str, url: str, allow_fragments: bool = True) -> str:
    """Return the result of Python's function of this name."""
    if type(url) is str and type(base) is str and allow_fragments:
        found, parts = _link(url), _parts_of(base)
        if found is not None and parts is not None:
            kind = found.lastgroup
            if kind == "whole":
                return url
            if "/." not in url or kind in ("query", "fragment"):
                return parts[str(kind)] + url
    return parse.urljoin(base, url, allow_fragments)


@lru_cache(maxsize=256)
def _parts_of(base: str) -> dict[str, str] | None:
    """Return the part of a page's URL that each kind of link keeps."""
    found = _base(base)
    if found is None:
        return None
    page, folder, origin, query = found.groups("")
    return {
        "whole": "",
        "path": origin,
        "name": folder,
        "query": page,
        "fragment": page + query,
    }


@lru_cache(maxsize=256)
def _keeps_ascii(encoding: str) -> bool:
    """Whether ASCII characters are the same bytes in an encoding."""
    try:
        return _ASCII.encode(encoding) == _ASCII.encode("ascii")
    except (LookupError, UnicodeError):
        return False


class FastUrls:
    """An extension: while a crawl runs, Scrapy calls these functions.

    They take the place of the original functions in the modules of Scrapy that have
    imported them, for all crawls of the process. A name that has been replaced by other
    code is left alone. ``EXTENSIONS = {"bloomdupe.links.fast_urls.FastUrls": None}``
    switches it off.
    """

    def __init__(self) -> None:
        self._names = [
            ImportedNames("safe_url_string", w3lib_url.safe_url_string, safe_url_string)
        ]
        if not all(w3lib_url.safe_url_string(url) == url for url in PROBES):
            self._names.clear()
        base = PROBED_BASE
        if all(parse.urljoin(base, url) == urljoin(base, url) for url in PROBED_LINKS):
            self._names.append(ImportedNames("urljoin", parse.urljoin, urljoin))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl; called by Scrapy."""
        extension = cls()
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        """Let Scrapy call the faster functions."""
        for name in self._names:
            name.replace()

    def spider_closed(self) -> None:
        """Put the original functions back, when no other crawl uses the faster ones."""
        for name in self._names:
            name.restore()
