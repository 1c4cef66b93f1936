"""The links of a page.

Not Scrapy's ``LinkExtractor``: that looks for ``<base>`` only in the first 4,096
characters, loses the whole page if the base is broken, and collects each link's text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urljoin

from w3lib.html import strip_html5_whitespace
from w3lib.url import safe_url_string

from crawler.hosts import host_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import HtmlResponse

__all__ = ["extract_links"]


def extract_links(response: HtmlResponse) -> Iterator[str]:
    """Yield the absolute URL of every ``<a href>`` and ``<area href>``, each once.

    URLs are escaped as a browser would and lose their fragment, but are not
    canonicalised. Links that cannot be resolved are left out. Links with other schemes
    (``mailto:``) or to other hosts are not left out: a ``Scope`` decides about them.
    """
    base = _base_url(response)
    seen = set()
    for href in response.xpath("//a/@href | //area/@href").getall():
        url = _absolute(base, href, response.encoding)
        if url is not None and url not in seen:
            seen.add(url)
            yield url


def _base_url(response: HtmlResponse) -> str:
    href = response.xpath("//base/@href").get("")
    base = _absolute(response.url, href, response.encoding)
    # As in browsers, a broken base is ignored.
    return base if base is not None and host_of(base) else response.url


def _absolute(base: str, href: str, encoding: str) -> str | None:
    try:
        # Escaped, as in RFC 3986. Browsers read it as a slash in paths; the server that
        # wrote the link decides about its meaning.
        href = strip_html5_whitespace(href).replace("\\", "%5C")
        url = urljoin(base, href)
        try:
            url = safe_url_string(url, encoding)
        except UnicodeEncodeError:  # a query the page's own encoding cannot write
            url = safe_url_string(url)
        return urldefrag(url).url
    except ValueError:  # such as http://[bad, or a port of 99999
        return None
