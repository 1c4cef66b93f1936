"""A site with a known graph.

``/0`` to ``/20`` are a tree with a few links across. The other pages are named by
their behaviour: see ``NAMED``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import urlsplit

from support.site import Answer, Visit, links

PAGES = 21
"""In the tree."""
FAN = 4
"""Links from a page of the tree to its children."""
CHAIN = 15
"""Pages in a chain."""
STAR = range(15)
"""The numbers of the pages around a star."""

Page: TypeAlias = "Callable[[Visit], str | Answer]"


def pages(visit: Visit) -> str | Answer:
    """Answer a request."""
    name = urlsplit(visit.path).path.split("/")[1]
    return (tree if name.isdigit() else NAMED.get(name, NAMED["missing"]))(visit)


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


def tree(visit: Visit) -> str:
    return links(*(f"/{link}" for link in links_of(number_in(visit))))


def chain(visit: Visit) -> str:
    following = number_in(visit) + 1
    return links(f"/chain/{following}") if following < CHAIN else ""


def flaky(visit: Visit) -> str | Answer:
    """Fails when it is asked for the first time."""
    return Answer("", 503) if visit.number == 1 else "<p>detail</p>"


def login(visit: Visit) -> Answer:
    """Takes a name in the query, and says it in a cookie."""
    cookie = f"user={visit.query['name']}; Path=/"
    return Answer(links("/private"), headers={"Set-Cookie": cookie})


def private(visit: Visit) -> str:
    user = re.search(r"user=(\w+)", cookies_in(visit))
    return f"<p>{user[1] if user else 'nobody'}</p>"


NAMED: dict[str, Page] = {
    "back": lambda visit: f"-> /{number_in(visit)}",
    "chain": chain,
    "detail": lambda _: "<p>detail</p>",
    "file": lambda visit: typed(
        b"%d " % number_in(visit) * 1000, "application/octet-stream"
    ),
    "flaky": flaky,
    "login": login,
    "missing": lambda _: Answer("nothing here", 404),
    "moved": lambda visit: f"-> /detail/{number_in(visit)}",
    # It is ready when it is asked for the third time.
    "poll": lambda visit: typed(
        json.dumps({"ready": visit.number >= 3}), "application/json"
    ),
    "private": private,
    "star": lambda _: links(*(f"/detail/{number}" for number in STAR)),
}
"""By the first part of the path."""
