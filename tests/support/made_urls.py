"""URLs as a crawl meets them, made up: the same ones in every run, and on any machine.

Tests that know the lists of real URLs beside the repository take these without them.
"""

from __future__ import annotations

import random
from itertools import islice, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["everyday", "odd", "spelled"]

WORDS = [
    "about", "annual", "archive", "budget", "contact", "data", "energy", "forms",
    "grants", "health", "index", "jobs", "library", "map", "news", "office", "policy",
    "report", "science", "search", "staff", "travel", "water", "year",
]  # fmt: skip
KINDS = ["", "/", ".html", ".htm", ".php", ".aspx", ".pdf", "_2.jpg"]
NAMES = ["id", "page", "q", "sort", "lang", "ref"]


def everyday(seed: str, count: int) -> list[str]:
    """Return distinct URLs; those of another seed are of other sites."""
    return list(islice(_distinct(_everyday(random.Random(seed), seed)), count))


def odd(count: int) -> list[str]:
    """Return distinct URLs of which many are not spelled as they should be."""
    draw = random.Random("odd")
    urls = _everyday(draw, "odd")
    return list(islice(_distinct(draw.choice(TWISTS)(next(urls)) for _ in urls), count))


def spelled() -> list[str]:
    """Return every spelling of some URLs that a specification tells apart."""
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
