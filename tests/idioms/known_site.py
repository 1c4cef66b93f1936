"""A site with a known graph.

``/0`` to ``/20`` are a tree with a few links across. The other pages are named by
their behaviour: see the functions below.
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

Page: TypeAlias = "Callable[[Visit], Answer]"


def pages(visit: Visit) -> Answer:
    """Answer a request."""
    name = urlsplit(visit.path).path.split("/")[1]
    return (tree if name.isdigit() else NAMED.get(name, missing))(visit)


def number_in(visit: Visit) -> int:
    return int(urlsplit(visit.path).path.rpartition("/")[2])


def cookies_in(visit: Visit) -> str:
    return visit.headers.get("Cookie", "")


def typed(body: str | bytes, kind: str) -> Answer:
    return Answer(body, headers={"Content-Type": kind})


def links_of(number: int) -> list[int]:
    """Return the links of a page of the tree; none leads back to the first page."""
    children = [FAN * number + n for n in range(1, FAN + 1)]
    across = [(7 * number + 3) % (PAGES - 1) + 1, (5 * number) % (PAGES - 1) + 1]
    return [link for link in (*children, *across) if 0 < link < PAGES]


def html(paths: list[str], text: str = "") -> Answer:
    links = "".join(f'<a href="{path}">{path}</a>\n' for path in paths)
    return Answer(f"<html><body><p>{text}</p>\n{links}</body></html>")


def tree(visit: Visit) -> Answer:
    return html([f"/{link}" for link in links_of(number_in(visit))])


def detail(_: Visit) -> Answer:
    """Leads nowhere."""
    return html([], "detail")


def chain(visit: Visit) -> Answer:
    following = number_in(visit) + 1
    return html([f"/chain/{following}"] if following < CHAIN else [])


def star(_: Visit) -> Answer:
    return html([f"/detail/{number}" for number in range(STAR)])


def poll(visit: Visit) -> Answer:
    """Is ready when it is asked for the third time."""
    ready = visit.number >= 3
    return typed(json.dumps({"ready": ready}), "application/json")


def moved(visit: Visit) -> Answer:
    return Answer("", 302, headers={"Location": f"/detail/{number_in(visit)}"})


def refresh(visit: Visit) -> Answer:
    place = f"/detail/{number_in(visit)}"
    return Answer(f'<meta http-equiv="refresh" content="0; url={place}">')


def flaky(visit: Visit) -> Answer:
    """Fails when it is asked for the first time."""
    return Answer("", 503) if visit.number == 1 else detail(visit)


def missing(_: Visit) -> Answer:
    return Answer("nothing here", 404)


def echo(visit: Visit) -> Answer:
    said = {"method": visit.method, "body": visit.body, "cookies": cookies_in(visit)}
    return typed(json.dumps(said), "application/json")


def login(visit: Visit) -> Answer:
    """Takes a name in the query, and says it in a cookie."""
    name = visit.query["name"]
    answer = html(["/private"], "welcome")
    return Answer(answer.body, headers={"Set-Cookie": f"user={name}; Path=/"})


def private(visit: Visit) -> Answer:
    user = re.search(r"user=(\w+)", cookies_in(visit))
    return html([], user[1] if user else "nobody")


def form(visit: Visit) -> Answer:
    return Answer(
        '<form action="/echo" method="post">'
        f'<input type="hidden" name="token" value="t{number_in(visit)}">'
        '<input name="q"></form>'
    )


def file(visit: Visit) -> Answer:
    return typed(b"%d " % number_in(visit) * 1000, "application/octet-stream")


def sitemap(visit: Visit) -> Answer:
    pages = "".join(
        f"<url><loc>{visit.base}/detail/{n}</loc></url>" for n in range(STAR)
    )
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return typed(f'<urlset xmlns="{space}">{pages}</urlset>', "text/xml")


def sitemap_index(visit: Visit) -> Answer:
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    one = f"<sitemap><loc>{visit.base}/sitemap.xml</loc></sitemap>"
    return typed(f'<sitemapindex xmlns="{space}">{one}</sitemapindex>', "text/xml")


def feed_xml(_: Visit) -> Answer:
    items = "".join(f"<item><id>{n}</id></item>" for n in range(STAR))
    return typed(f"<rss>{items}</rss>", "text/xml")


def robots(_: Visit) -> Answer:
    return typed("User-agent: *\nDisallow: /2\n", "text/plain")


NAMED: dict[str, Page] = {
    "chain": chain,
    "detail": detail,
    "echo": echo,
    "feed.xml": feed_xml,
    "file": file,
    "flaky": flaky,
    "form": form,
    "login": login,
    "missing": missing,
    "moved": moved,
    "poll": poll,
    "private": private,
    "refresh": refresh,
    "robots.txt": robots,
    "sitemap.xml": sitemap,
    "sitemap_index.xml": sitemap_index,
    "star": star,
}
"""By the first part of the path."""
