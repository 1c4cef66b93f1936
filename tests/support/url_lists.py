"""URLs and links to compare functions with: real, specified, and at random."""

from __future__ import annotations

import json
import lzma
import random
from itertools import islice, product
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

WORDS = [
    "about", "annual", "archive", "budget", "contact", "data", "energy", "forms",
    "grants", "health", "index", "jobs", "library", "map", "news", "office", "policy",
    "report", "science", "search", "staff", "travel", "water", "year",
]  # fmt: skip
KINDS = ["", "/", ".html", ".htm", ".php", ".aspx", ".pdf", "_2.jpg"]
NAMES = ["id", "page", "q", "sort", "lang", "ref"]

SEED = 20_261_123
BASES = [
    "http://a.example/b/c?d=e#f", "http://a.example/b/c/", "http://a.example/",
    "http://a.example", "https://b-c.example:8000/d?e", "http://a.example/b/c;d?e",
    "http://a.example/b//c/", "http://a.example/b/./c", "http://a.example/b/../c",
    "http://a.example/.b/c", "HTTP://A.Example/b", "http://a.example/b?", "",
    "http://a.example/b#", "file:///a/b", "about:blank", "http://[::1]/a/b",
    "http://[::1/", "http://a.example:99999/b", "http://u:p@a.example/b",
]  # fmt: skip
LINKS = [
    "/a/b", "/a//b", "//a.example/b", "/", "a", "a/b/", "a//b", "./a", "../a", "a/../b",
    "a/./b", ".a", "/.a", "/a/.", "/a/..", "?a=b", "?", "#a", "#", "a?", "a#", "a;",
    "a;b", "/a;", "/a;b?c", "a?b=./../c", "a#/../b", "a:b", "mailto:a", "http:a",
    "http:/a", "http:///a", "http://a.example;b", "https://c.example", "", " a", "a ",
    "\ta", "a\n", "é", "/é", "?é", "a%20b", "a b", "a'b", "?a'b", "#a'b", "a|b", "[a]",
]  # fmt: skip


def listed(name: str, every: int = 1) -> list[str]:
    """Return a list of real URLs, or without it a made-up list."""
    path = URLS / f"{name}.txt.xz"
    if path.exists():
        return lzma.decompress(path.read_bytes()).decode().splitlines()[::every]
    return odd(36_000) if "odd" in name else everyday(name, 12_000)


def specified() -> Iterator[str]:
    """WHATWG's URLs, and w3lib's cases of canonicalisation; and ours in any case."""
    yield from spelled()
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


# Made up: the same ones in every run, and on any machine


def everyday(seed: str, count: int) -> list[str]:
    """Return distinct URLs; those of another seed are of other sites."""
    return list(islice(_distinct(_everyday(random.Random(seed), seed)), count))


def odd(count: int) -> list[str]:
    """Return distinct URLs of which many are not spelled as they should be."""
    draw = random.Random("odd")
    urls = _everyday(draw, "odd")
    return list(islice(_distinct(draw.choice(TWISTS)(next(urls)) for _ in urls), count))


def spelled() -> list[str]:
    """Return every spelling of some URLs that a specification distinguishes."""
    schemes = ["http://", "HTTPS://", "http:\\\\", "ftp://"]
    hosts = [
        "a.example", "A.Example.", "u:p@a.example:80", "b\u00fccher.example", "[::1]:8",
        "192.0.2.1", "%61.example", "a_b.example:0443",
    ]  # fmt: skip
    paths = ["", "/", "/./a/../b", "/%7ea%2Fb%zz", "/\u00fc b", "/a;p=1//c", "\\d"]
    ends = ["", "?", "?b=2&a=1", "?a=%20+&&=x#y", "#", "#f?g", "?q=\u00e9\t"]
    return ["".join(parts) for parts in product(schemes, hosts, paths, ends)]


def _everyday(draw: random.Random, seed: str) -> Iterator[str]:
    while True:
        host = f"{draw.choice(['www.', '', 'docs.'])}{draw.choice(WORDS)}-{seed}"
        folders = draw.choices([*WORDS, "2019", "v2", "A-Z"], k=draw.randrange(5))
        path = "".join(f"/{folder}" for folder in folders)
        name = f"/{draw.choice(WORDS)}{draw.randrange(10_000)}{draw.choice(KINDS)}"
        names = sorted(draw.sample(NAMES, draw.choice([0, 0, 1, 2])))
        query = "&".join(f"{each}={draw.randrange(1_000)}" for each in names)
        mark = draw.choice([*9 * [""], "#top"])
        scheme = draw.choice(["http", "https", "https"])
        yield f"{scheme}://{host}.example{path}{name}{'?' * bool(query)}{query}{mark}"


def _distinct(urls: Iterator[str]) -> Iterator[str]:
    seen: set[str] = set()
    for url in urls:
        if url not in seen:
            seen.add(url)
            yield url


TWISTS: list[Callable[[str], str]] = [
    lambda url: url,
    lambda url: url.replace("#top", ""),
    lambda url: f"{url.partition('#')[0].partition('?')[0]}?z=1&b=2&a=3",
    lambda url: url.replace(".example/", ".EXAMPLE:80/"),
    lambda url: url.replace("a", "%61"),
    lambda url: url.replace("e", "\u00e9"),
    lambda url: f"{url}#part one",
    lambda url: url.replace(".example/", ".example/a/../"),
]
