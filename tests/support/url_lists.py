"""Lists of URLs to compare functions of URLs with: real, specified, and at random."""

from __future__ import annotations

import json
import lzma
from typing import TYPE_CHECKING, Any

from support import made_urls
from support.shared_data import SHARED

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

__all__ = ["BEGINNINGS", "listed", "put_together", "specified"]

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


def listed(name: str, every: int = 1) -> list[str]:
    """Return a list of real URLs, or without it one that is made up."""
    path = URLS / f"{name}.txt.xz"
    if path.exists():
        return lzma.decompress(path.read_bytes()).decode().splitlines()[::every]
    return made_urls.odd(36_000) if "odd" in name else made_urls.everyday(name, 12_000)


def specified() -> Iterator[str]:
    """WHATWG's URLs, and w3lib's cases of canonicalisation; and ours in any case."""
    yield from made_urls.spelled()
    for path in (URLS / "spec").glob("*.json"):
        yield from _texts(json.loads(path.read_text("utf-8")))


def put_together(draw: random.Random, most: int = 8) -> str:
    """Return up to so many pieces of URLs in any order."""
    return "".join(draw.choices(PIECES, k=draw.randrange(most + 1)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
