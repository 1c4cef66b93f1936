"""URLs and links to compare functions with: real, specified, and at random."""

from __future__ import annotations

import json
import lzma
import random
from itertools import product
from typing import TYPE_CHECKING, Any

from support.shared_data import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

URLS = SHARED / "urls"

PIECES = [
    *"aZ09-._~!$&'()*+,;=:@/?#[]|%^`{}\\\" é\t",
    *"&=/?&=/?..",
    *(f"%{number:02X}" for number in range(0, 256, 7)),
    *("%2f", "%zz", "//", "/./", "/../", "=&", "a=1", "b=2", "&a-b=1", "x+y", "%20"),
]
BEGINNINGS = ["http://a.example", "https://b_c.example:80", "http://A.example/b"]
BEGINNINGS += ["http://d.example:080/", "http://u:p@e.example/", "http://[::1]/"]
BEGINNINGS += ["ftp://f.example/", "http://g.example?", "http://g.example/h?a=1"]

SEED = 20_261_123
BASES = [
    "http://a.example/b/c?d=e#f", "http://a.example/b/c/", "http://a.example/",
    "http://a.example", "https://b-c.example:8000/d?e", "http://a.example/b/c;d?e",
    "http://a.example/b//c/", "http://a.example/b/./c", "http://a.example/b/../c",
    "http://a.example/.b/c", "HTTP://A.Example/b", "http://a.example/b?", "",
    "http://a.example/b#", "file:///a/b", "about:blank", "http://[::1]/a/b",
    "http://[::1/", "http://a.example:99999/b", "http://u:p@a.example/b",
]  # fmt: skip


def real(every: int) -> list[str]:
    """Return one in so many real URLs that are odd; none without the list of them."""
    path = URLS / "odd_urls.txt.xz"
    if not path.exists():
        return []
    return lzma.decompress(path.read_bytes()).decode().splitlines()[::every]


def specified() -> Iterator[str]:
    """Yield every spelling that a specification distinguishes.

    Where the list is, also WHATWG's URLs, and w3lib's cases of canonicalisation.
    """
    schemes = ["http://", "HTTPS://", "http:\\\\", "ftp://"]
    hosts = [
        "a.example", "A.Example.", "u:p@a.example:80", "b\u00fccher.example", "[::1]:8",
        "192.0.2.1", "%61.example", "a_b.example:0443",
    ]  # fmt: skip
    paths = ["", "/", "/./a/../b", "/%7ea%2Fb%zz", "/\u00fc b", "/a;p=1//c", "\\d"]
    paths += ["/data/2019/A-Z/index42.html", "/v2/report7_2.jpg/"]
    ends = ["", "?", "?b=2&a=1", "?a=%20+&&=x#y", "#", "#f?g", "?q=\u00e9\t"]
    ends += ["?id=3&lang=7&page=10#top", "?sort=1#part one"]
    yield from map("".join, product(schemes, hosts, paths, ends))
    for path in (URLS / "spec").glob("*.json"):
        yield from _texts(json.loads(path.read_text("utf-8")))


def put_together(draw: random.Random, most: int = 8) -> str:
    """Return up to so many pieces of URLs in any order."""
    return "".join(draw.choices(PIECES, k=draw.randrange(most + 1)))


def at_random(draw: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Yield so many pairs of a page's URL and a link, put together at random."""
    for _ in range(count):
        base = draw.choice(BASES[:3] if draw.random() < 0.5 else BASES)
        if draw.random() < 0.3:
            base = draw.choice(BEGINNINGS) + put_together(draw, 4)
        beginning = draw.choice(["", "", "", "/", "/a/", "a/", "?", "#", *BEGINNINGS])
        yield base, beginning + put_together(draw)


def result(function: Callable[..., Any], *arguments: object, **more: object) -> object:
    """Return the result of a function, or its exception in a form to compare."""
    try:
        return function(*arguments, **more)
    except Exception as error:  # noqa: BLE001 - of any kind: the same for both
        return type(error), str(error)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
