from __future__ import annotations

from types import EllipsisType

import pytest
from scrapy.http import HtmlResponse

from crawler.links import extract_links

PAGE = "http://example.com/a/b"


def links(html: str, encoding: str = "utf-8") -> list[str]:
    response = HtmlResponse(PAGE, body=html.encode(encoding), encoding=encoding)
    return list(extract_links(response))


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("c", "http://example.com/a/c"),
        ("/c?y=2&x=1", "http://example.com/c?y=2&x=1"),  # as it is, not sorted
        ("/%7Euser", "http://example.com/%7Euser"),
        ("c#part", "http://example.com/a/c"),
        ("#part", PAGE),
        ("", PAGE),
        (" \t\n", PAGE),
        ("?", PAGE),
        ("?q", "http://example.com/a/b?q"),
        ("../../../c", "http://example.com/c"),
        ("//other.example/c", "http://other.example/c"),
        ("http:c", "http://example.com/a/c"),
        ("HTTP://EXAMPLE.com/C", "http://example.com/C"),
        ("\n c d \t", "http://example.com/a/c%20d"),
        ("c\td\ne", "http://example.com/a/cde"),
        ("c\x01d", "http://example.com/a/c%01d"),
        ("c&#0;d", "http://example.com/a/c%EF%BF%BDd"),
        ("\\", "http://example.com/a/%5C"),
        ("\\c\\d?\\e", "http://example.com/a/%5Cc%5Cd?%5Ce"),
        ("caf\u00e9?caf\u00e9", "http://example.com/a/caf%C3%A9?caf%C3%A9"),
        ("http://b\u00fccher.example/", "http://xn--bcher-kva.example/"),
        ("100%", "http://example.com/a/100%"),
        ("x" * 10_000, "http://example.com/a/" + "x" * 10_000),
        ("http://[bad", None),
        ("http://[::1", None),
        ("http://example.com:99999/", None),
        ("http://example.com:port/", None),
        ("http://" + "\u00fc" * 80 + ".example/", ...),
        ("http://../", ...),
        ("http://a b/", ...),
        ("javascript:void(0)", ...),
        ("mailto:me@example.com", ...),
        ("data:text/html,x", ...),
        (":", ...),
        ("::", ...),
        ("%", ...),
        ("%zz", ...),
        ("\ufeff", ...),
        ("\u202e//", ...),
    ],
)
def test_a_broken_link_does_not_stop_the_rest(
    href: str, url: str | EllipsisType | None
) -> None:
    """``...``: anything, as long as the last link is found."""
    found = links(f'<a href="{href}">x</a><a href="/last">x</a>')
    assert found[-1] == "http://example.com/last"
    if url is not ...:
        assert found[:-1] == ([] if url is None else [url])


def test_only_a_and_area_are_links_and_each_url_counts_once() -> None:
    found = links(
        """<link href="/link"><img src="/img"><!-- <a href="/comment"> -->
        <script>"<a href='/script'>"</script><a name="x">x</a>
        <A HREF='/one'>x</A><a href=/two>x<a href="/one#again">
        <map><area href="/three"></map>"""
    )
    assert found == [f"http://example.com/{name}" for name in ("one", "two", "three")]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("/c/", "http://example.com/c/x"),
        ("c/", "http://example.com/a/c/x"),
        ("http://other.example/c/", "http://other.example/c/x"),
        ("", "http://example.com/a/x"),
        ("http://[bad", "http://example.com/a/x"),
        ("javascript:0", "http://example.com/a/x"),
    ],
)
def test_the_base_counts_at_any_place(base: str, url: str) -> None:
    head = f"<head><style>{' ' * 5000}</style><base href='{base}'><base href='/no/'>"
    assert links(head + "<a href='x'>x</a>") == [url]


def test_a_query_is_written_in_the_encoding_of_the_page_if_it_can() -> None:
    assert links("<a href='?\u00e9'>", "latin-1") == [PAGE + "?%E9"]
    assert links("<a href='?&euro;'>", "latin-1") == [PAGE + "?%E2%82%AC"]


@pytest.mark.parametrize("body", ["", " ", "\0", "<", "<a", "<a href", "<a href=\xff>"])
def test_a_page_may_be_broken(body: str) -> None:
    assert len(links(body)) <= 1
