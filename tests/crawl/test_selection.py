from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from scrapy import Request
from scrapy.utils.request import fingerprint

from bloomdupe.frontier.payload import short_url
from bloomdupe.jobs.selection import Search

URLS = (
    "https://example.com/",
    "http://www.example.com/a/page-7.html",
    "https://User@shop.example.com:8443/A~b/_c.d?z=1&q=a+b&q=&x#top",
    "https://example.com/caf%C3%A9/%7Ename/x%2Fy?u=http%3A%2F%2Fa.example%2F&k=v",
    "https://b\u00fccher.example/a b/\u00e4?\u00f6=\u00fc",
    "ftp://example.com/;p?a=1;b=2",
    "https://[2001:0db8:0000::1]/a.html",
    "https://example.com/detail/a+b",
)


def reader(*, plain: bool) -> Any:
    return SimpleNamespace(is_plain=plain)  # nothing is read here


def variants(url: str, rng: random.Random) -> str:
    """Spell a URL in another way, perhaps as the URL of another page."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    if rng.random() < 0.3:
        host = host.upper()
    path = "".join(
        f"%{ord(sign):02x}" if sign.isalnum() and rng.random() < 0.1 else sign
        for sign in path
    )
    before, mark, query = path.partition("?")
    if rng.random() < 0.2:
        before = before.replace("/", "/./") + "/x/.."
    fields = query.split("&")
    rng.shuffle(fields)
    return f"{scheme}://{host}/{before}{mark}{'&'.join(fields)}"


@pytest.mark.parametrize("url", URLS)
def test_no_spelling_of_a_wanted_url_is_denied(url: str) -> None:
    rng = random.Random(url)
    request = Request(url)
    key = fingerprint(request)
    may_be = Search({key: url}, reader(plain=True)).may_be
    same = 0
    for _ in range(100):
        stored = Request(variants(url, rng))
        if fingerprint(stored) == key:
            same += 1
            payload = msgpack.packb([short_url(stored.url), 3])
            assert may_be(payload), stored.url
    assert same > 10
