"""The link graph of the sample site: its answers, and the expected crawl."""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from w3lib.url import canonicalize_url

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Answer", "Link", "SampleSite", "canonical_path"]

ROBOTS_TXT = "User-agent: *\nDisallow: /private/\n"
_HTML = "text/html; charset=utf-8"
_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c"
    "49444154789c63f8cfc00000030101001827b9a20000000049454e44ae426082"
)


@dataclass(frozen=True)
class Link:
    """A link as it is written in a page, and its target."""

    href: str
    """``{host}`` stands for the server's host and port, ``{HOST}`` in capitals."""
    target: str | None
    """Canonical path, or None if a crawl must not request anything for it."""


@dataclass(frozen=True)
class Answer:
    """The server's answer for a path."""

    status: int = 200
    title: str = ""
    links: tuple[Link, ...] = ()
    location: str | None = None
    """Canonical path that a redirect leads to."""
    flaky: bool = False
    """Whether the first request ever is answered with 500."""
    content_type: str = _HTML
    data: bytes | None = None
    """The whole body of anything but HTML."""
    head: str = ""
    """HTML for the head, such as ``<base>``."""
    extra: str = ""
    """HTML for the end of the body."""

    def body(self, host: str) -> bytes:
        """Render the body for a server with the address *host* (``name:port``)."""
        if self.data is not None:
            return self.data
        title = html.escape(self.title)
        items = "\n".join(
            f'<li><a href="{html.escape(link.href)}">{number}</a></li>'
            for number, link in enumerate(self.links)
        )
        page = (
            f"<!DOCTYPE html>\n<html><head><title>{title}</title>{self.head}</head>\n"
            f"<body><h1>{title}</h1>\n<ul>\n{items}\n</ul>\n{self.extra}</body></html>\n"
        )
        page = page.replace("{host}", host).replace("{HOST}", host.upper())
        return page.encode()


# Every href here is on /odd/. Each of them must be harmless, and the last link must be
# found in spite of all links before it.
_ODD_LINKS = (
    Link("javascript:void(0)", None),
    Link("JAVASCRIPT:alert('x')", None),
    Link("mailto:nobody@example.com", None),
    Link("tel:+49123", None),
    Link("data:text/html,<a href='/trap/data'>x</a>", None),
    Link("about:blank", None),
    Link("ftp://{host}/trap/ftp", None),
    Link("http://[bad", None),
    Link("http://[::1", None),
    Link("http://", "/odd/"),
    Link("http://elsewhere.invalid/", None),
    Link("//elsewhere.invalid/trap", None),
    Link("http://{host}.elsewhere.invalid/", None),
    Link("http://localhost:99999/trap/port", None),
    Link("http://localhost:port/trap/port", None),
    Link("", "/odd/"),
    Link(" \t\n ", "/odd/"),
    Link("#", "/odd/"),
    Link("?", "/odd/"),
    Link("?#x", "/odd/"),
    Link("\n /odd/white\tspace\n ", "/odd/whitespace"),
    Link("/odd/with space", "/odd/with%20space"),
    Link("/odd/caf\u00e9", "/odd/caf%C3%A9"),
    Link("/odd/caf%c3%a9", "/odd/caf%C3%A9"),
    Link("/odd/100%", "/odd/100%"),
    Link("/odd/control\x01char", "/odd/control%01char"),
    Link("/odd/quote\"'", "/odd/quote%22'"),
    Link("\\odd\\backslash?a\\b", "/odd/%5Codd%5Cbackslash?a%5Cb="),
    Link("../../../odd/above", "/odd/above"),
    Link("./below/./../beside", "/odd/beside"),
    Link("/odd/;a=1?b", "/odd/;a=1?b="),
    Link("http:/odd/one-slash", "/odd/one-slash"),
    Link("HTTP://{HOST}/odd/capitals", "/odd/capitals"),
    Link("/odd/after", "/odd/after"),
)
# Nothing in here is a link, except in the image map.
_NO_LINKS = """
<!-- <a href="/trap/comment">x</a> -->
<script>document.write("<a href='/trap/script'>x</a>")</script>
<img src="/trap/img" alt=""><iframe src="/trap/iframe"></iframe>
<form action="/trap/form"><button>x</button></form>
<a name="nowhere">x</a> <a data-href="/trap/data-href">x</a>
<map name="m"><area href="/odd/area" shape="default" alt=""></map>
"""
_ODD_HEAD = (
    '<link rel="stylesheet" href="/trap/link">'
    '<meta http-equiv="refresh" content="0; url=/trap/refresh">'
)
_AREA = Link("/odd/area", "/odd/area")
_ODD_TARGETS = frozenset(
    link.target
    for link in (*_ODD_LINKS, _AREA)
    if link.target is not None and link.target != "/odd/"
)


def canonical_path(uri: str) -> str:
    """Return path and query as Scrapy's fingerprinter sees them.

    *uri* begins with a slash, or is an absolute URL.
    """
    if uri.startswith("/"):
        uri = f"http://host{uri}"
    parts = urlsplit(canonicalize_url(uri))
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _spell(path: str, way: int) -> Link:
    """Spell a canonical path in a way from 0 to 7; all have the same fingerprint."""
    plain, question, query = path.partition("?")
    spelled = path
    if way == 1:
        spelled = f"{path}#part"
    elif way == 2:
        spelled = "http://{host}" + path
    elif way == 3:
        spelled = "HTTP://{HOST}" + path
    elif way == 4:
        spelled = "//{host}" + path
    elif way == 5:  # %7euser, pag%65
        spelled = re.sub(
            r"([~0-9a-z])(?=[^~0-9a-z]*$|user)",
            lambda char: f"%{ord(char[1]):02x}",
            plain,
            count=1,
        )
        spelled += question + query
    elif way == 6:
        spelled = f"../..{path}"
    elif way == 7 and query:
        spelled = f"{plain}?{'&'.join(reversed(query.split('&')))}#sorted"
    return Link(spelled, path)


class SampleSite:
    """The sample site with a given number of pages; the same today and tomorrow.

    *pages* is the number of items that a full crawl yields, at least 50: that many
    distinct URLs end in an answer that is no redirect. Raises :exc:`ValueError`.

    ========================  =======================================================
    ``/``                     the start; every HTML page links back to it
    ``/page/7``               articles, a binary tree with many cross links
    ``/list?order=a&page=7``  linked with its parameters in both orders
    ``/~user7/``              linked as ``%7euser7`` and so on
    ``/moved/7``              301 to an article that is linked anyway
    ``/home``                 302 to the start
    ``/old/7``                302 to ``/new/7``, which has no other link
    ``/chain/7/a``            301, 302, 301 to ``/chain/7/end``
    ``/missing/7``            404, with a link that must not be followed
    ``/flaky/7``              500 at the first request, 200 from then on
    ``/broken``               500 always
    ``/files/7.txt``          and ``.pdf``, ``.png``: no HTML, the text looks like it
    ``/docs/``                its links are relative to its ``<base>``
    ``/odd/``                 odd and broken links
    ``/private/7``            linked, but forbidden by robots.txt
    ``/trap/...``             not linked, though it may look so to a bad crawler
    ========================  =======================================================
    """

    def __init__(self, pages: int = 2000) -> None:
        if pages < 50:  # one of each kind, and articles to link them all
            raise ValueError(f"a sample site of {pages} pages: it needs at least 50")
        self.pages = pages
        many, some = pages // 40, max(1, pages // 200)
        self._specials = self._make_specials(many, some)
        items = sum(answer.location is None for answer in self._specials.values())
        private = some
        # The start page is not among the specials, and private pages are no items.
        self.articles = pages - 1 - (items - private)
        # Targets of links in articles; the rest is reached from there.
        self._entries = [
            path
            for path in self._specials
            if not re.match(r"/(new|chain/\d+/(b|c|end)|docs/deep|odd)/.", path)
        ]

    def answer(self, uri: str) -> Answer:
        """Return the server's answer for *uri*, in any spelling."""
        path = canonical_path(uri)
        if path == "/robots.txt":
            return Answer(content_type="text/plain", data=ROBOTS_TXT.encode())
        if path == "/":
            return self._start()
        if path.startswith("/trap/"):
            # A trap must look as tempting to a bad crawler as any other page.
            return Answer(title=f"Trap {path}", links=(Link("/", "/"),))
        article = re.fullmatch(r"/page/(0|[1-9]\d{0,9})", path)
        if article is not None and int(article[1]) < self.articles:
            return self._article(int(article[1]))
        return self._specials.get(path) or Answer(
            status=404,
            title="Not found",
            links=(Link("deeper/", None), Link("/trap/missing", None)),
        )

    def expected_pages(self, base_url: str) -> dict[str, int]:
        """Return canonical URL and status of every item that a full crawl yields.

        *base_url* is where the start page is, such as ``http://127.0.0.1:8000/``.
        """
        origin = canonicalize_url(base_url).rstrip("/")
        return {
            origin + path: answer.status
            for path, answer in self._walk()
            if answer.location is None
        }

    def expected_requests(self, retry_times: int = 2) -> Counter[tuple[int, str]]:
        """Count status and canonical path of every request that a full crawl makes.

        This equals the server's log, as long as no URL is requested twice.
        *retry_times* is the setting of that name. Includes ``/robots.txt``.
        """
        requests = Counter({(200, "/robots.txt"): 1})
        for path, answer in self._walk():
            requests[answer.status, path] += 1
            if answer.flaky:
                requests[500, path] += 1
            elif answer.status == 500:
                requests[500, path] += retry_times
        return requests

    def _walk(self) -> Iterator[tuple[str, Answer]]:
        """Yield each path that a good crawler requests, with its final answer."""
        seen = {"/"}
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            answer = self.answer(path)
            yield path, answer
            targets = [answer.location]
            if answer.status == 200 and answer.data is None:
                targets += [link.target for link in answer.links]
            if path == "/odd/":
                targets.append(_AREA.target)
            for target in targets:
                if target and target not in seen and "/private/" not in target:
                    seen.add(target)
                    waiting.append(target)

    def _start(self) -> Answer:
        targets = [f"/page/{number}" for number in range(min(5, self.articles))]
        return Answer(
            title="Sample site",
            links=tuple(_spell(path, way) for way, path in enumerate(["/", *targets])),
        )

    def _article(self, number: int) -> Answer:
        """Link to the start, the tree around, the neighbours, and two specials."""
        n = self.articles
        tree = [(number - 1) // 2, 2 * number + 1, 2 * number + 2]
        near = [number + step for step in (-3, -2, -1, 0, 1, 2, 3)]
        far = [(number * factor + 1) % n for factor in (3, 7, 11, 13)]
        targets = [f"/page/{i}" for i in (*tree, *near, *far) if 0 <= i < n]
        entries = self._entries
        # Twice each, so that specials are met in several spellings.
        targets += [entries[number % len(entries)]] * 2
        targets += [entries[(5 * number + 2) % len(entries)]] * 2
        links = [_spell(path, (number + 3 * i) % 8) for i, path in enumerate(targets)]
        return Answer(
            title=f"Article {number}", links=(_spell("/", number % 8), *links)
        )

    @staticmethod
    def _make_specials(many: int, some: int) -> dict[str, Answer]:
        """Return all pages but start and articles; *many* or *some* of each kind."""
        home = Link("/", "/")
        site: dict[str, Answer] = {}
        for i in range(many):
            site[f"/list?order=a&page={i}"] = Answer(title=f"List {i}", links=(home,))
            site[f"/~user{i}/"] = Answer(
                title=f"User {i}", links=(home, Link("..", "/"))
            )
            site[f"/moved/{i}"] = Answer(301, location=f"/page/{i}")
            site[f"/old/{i}"] = Answer(302, location=f"/new/{i}")
            site[f"/new/{i}"] = Answer(title=f"New {i}", links=(home,))
            site[f"/missing/{i}"] = Answer(
                404, title="Not found", links=(home, Link("/trap/missing", None))
            )
            site[f"/flaky/{i}"] = Answer(title=f"Flaky {i}", links=(home,), flaky=True)
        for i in range(some):
            for here, status, there in (
                ("a", 301, "b"),
                ("b", 302, "c"),
                ("c", 301, "end"),
            ):
                site[f"/chain/{i}/{here}"] = Answer(
                    status, location=f"/chain/{i}/{there}"
                )
            site[f"/chain/{i}/end"] = Answer(title=f"End {i}", links=(home,))
            site[f"/private/{i}"] = Answer(
                title="Private", links=(home, Link("/private/inner", "/private/inner"))
            )
            site[f"/files/{i}.txt"] = Answer(
                content_type="text/plain; charset=utf-8",
                data=f'<a href="/trap/text">only text {i}</a>\n'.encode(),
            )
            site[f"/files/{i}.pdf"] = Answer(
                content_type="application/pdf",
                data=b"%PDF-1.4\n<a href='/trap/pdf'>\x00\xff</a>\n%%EOF\n",
            )
            site[f"/files/{i}.png"] = Answer(content_type="image/png", data=_PIXEL)
        site["/home"] = Answer(302, location="/")
        site["/broken"] = Answer(
            500, title="Broken", links=(Link("/trap/broken", None),)
        )
        inner = [Link(f"{i}.html", f"/docs/deep/{i}.html") for i in range(3)]
        site["/docs/"] = Answer(
            title="With a base",
            head='<base href="/docs/deep/">',
            links=(*inner, Link("../../", "/"), Link("../", "/docs/")),
        )
        for i in range(3):
            site[f"/docs/deep/{i}.html"] = Answer(
                title=f"Deep {i}", links=(Link("../../", "/"), Link("../", "/docs/"))
            )
        site["/odd/"] = Answer(
            title="Odd links",
            head=_ODD_HEAD,
            links=(home, *_ODD_LINKS),
            extra=_NO_LINKS,
        )
        for path in sorted(_ODD_TARGETS):
            site[path] = Answer(title=f"Odd {path}", links=(home,))
        return site
