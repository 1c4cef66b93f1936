"""A site with a known graph.

``/0`` to ``/20`` are a tree with a few links across. The other pages are named by
their behaviour: see :data:`NAMED`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import urlsplit

from support.site import Answer, Visit

PAGES = 21
"""In the tree."""
FAN = 4
"""Links from a page of the tree to its children."""
CHAIN = 15
"""Pages in a chain."""
STAR = 15
"""Pages around a star."""
FORM = (
    '<form action="/echo" method="post">'
    '<input type="hidden" name="token" value="t%d"><input name="q"></form>'
)
SITEMAP = '<%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">%s</%s>'

Page: TypeAlias = "Callable[[Visit], Answer]"


def pages(visit: Visit) -> Answer:
    """Answer a request."""
    name = urlsplit(visit.path).path.split("/")[1]
    if not name.isdigit():
        return NAMED.get(name, NAMED["missing"])(visit)
    return html([f"/{link}" for link in links_of(int(name))])


def number_in(visit: Visit) -> int:
    return int(urlsplit(visit.path).path.rpartition("/")[2])


def links_of(number: int) -> list[int]:
    """Return the links of a page of the tree; none leads back to the first page."""
    children = [FAN * number + n for n in range(1, FAN + 1)]
    across = [(7 * number + 3) % (PAGES - 1) + 1, (5 * number) % (PAGES - 1) + 1]
    return [link for link in (*children, *across) if 0 < link < PAGES]


def html(paths: list[str], text: str = "", **headers: str) -> Answer:
    links = "".join(f'<a href="{path}">{path}</a>\n' for path in paths)
    body = f"<html><body><p>{text}</p>\n{links}</body></html>"
    return Answer(body, headers={n.replace("_", "-"): v for n, v in headers.items()})


def typed(body: str | bytes, kind: str) -> Answer:
    return Answer(body, headers={"Content-Type": kind})


def as_json(**values: object) -> Answer:
    return typed(json.dumps(values), "application/json")


def xml(tag: str, parts: list[str]) -> Answer:
    return typed(SITEMAP % (tag, "".join(parts), tag), "text/xml")


def detail(_: Visit) -> Answer:
    """Leads nowhere."""
    return html([], "detail")


def chain(visit: Visit) -> Answer:
    following = number_in(visit) + 1
    return html([f"/chain/{following}"] if following < CHAIN else [])


def echo(visit: Visit) -> Answer:
    cookies = visit.headers.get("Cookie", "")
    return as_json(method=visit.method, body=visit.body, cookies=cookies)


def login(visit: Visit) -> Answer:
    """Takes a name in the query, and says it in a cookie."""
    cookie = f"user={visit.query['name']}; Path=/"
    return html(["/private"], "welcome", Set_Cookie=cookie)


def private(visit: Visit) -> Answer:
    user = re.search(r"user=(\w+)", visit.headers.get("Cookie", ""))
    return html([], user[1] if user else "nobody")


def refresh(visit: Visit) -> Answer:
    place = f"/detail/{number_in(visit)}"
    return Answer(f'<meta http-equiv="refresh" content="0; url={place}">')


def sitemap(visit: Visit) -> Answer:
    urls = [f"<url><loc>{visit.base}/detail/{n}</loc></url>" for n in range(STAR)]
    return xml("urlset", urls)


NAMED: dict[str, Page] = {
    "chain": chain,
    "detail": detail,
    "echo": echo,
    "feed.xml": lambda _: typed(
        f"<rss>{''.join(f'<item><id>{n}</id></item>' for n in range(STAR))}</rss>",
        "text/xml",
    ),
    "file": lambda v: typed(b"%d " % number_in(v) * 1000, "application/octet-stream"),
    # Fails when it is asked for the first time.
    "flaky": lambda v: Answer("", 503) if v.number == 1 else detail(v),
    "form": lambda v: Answer(FORM % number_in(v)),
    "login": login,
    "missing": lambda _: Answer("nothing here", 404),
    "moved": lambda v: Answer("", 302, {"Location": f"/detail/{number_in(v)}"}),
    # Is ready when it is asked for the third time.
    "poll": lambda v: as_json(ready=v.number >= 3),
    "private": private,
    "refresh": refresh,
    "robots.txt": lambda _: typed("User-agent: *\nDisallow: /2\n", "text/plain"),
    "sitemap.xml": sitemap,
    "sitemap_index.xml": lambda v: xml(
        "sitemapindex", [f"<sitemap><loc>{v.base}/sitemap.xml</loc></sitemap>"]
    ),
    "star": lambda _: html([f"/detail/{number}" for number in range(STAR)]),
}
"""By the first part of the path."""
