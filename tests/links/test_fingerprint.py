"""The fast fingerprint is Scrapy's, byte for byte."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from hashlib import sha1
from typing import Any

import pytest
from scrapy import FormRequest, Request
from scrapy.utils.request import RequestFingerprinter, fingerprint
from url_lists import BEGINNINGS, put_together, specified

from bloomdupe.links.fingerprint import (
    ScrapyRedisFingerprinter,
    _hash,
    fingerprint_function,
)

SEED = 20_261_121

fast = fingerprint_function(RequestFingerprinter())


def compare(urls: Iterable[str]) -> tuple[int, int, int]:
    """Return how many were compared, took the fast way, and are not canonical."""
    compared = quick = changed = 0
    for url in urls:
        try:
            request = Request(url)
        except ValueError:  # no URL
            continue
        expected = fingerprint(request)
        assert fast(request) == expected, request.url
        compared += 1
        quick += _hash(request.url) is not None
        text = json.dumps(
            {"body": "", "headers": {}, "method": "GET", "url": request.url}
        )
        changed += sha1(text.encode()).digest() != expected  # noqa: S324 - as Scrapy's fingerprint
    return compared, quick, changed


def test_urls_of_the_specifications() -> None:
    compared, _, changed = compare(specified())
    assert compared > 500
    assert changed > 200


def test_urls_put_together_at_random() -> None:
    draw = random.Random(SEED)
    compared, quick, changed = compare(
        draw.choice(BEGINNINGS) + put_together(draw) for _ in range(5_000)
    )
    assert compared > 3_750
    assert quick > 250
    assert changed > 2_500


@pytest.mark.parametrize(
    "where", ["/a%sb", "/%s", "/?a=b%sc", "/?a%sb=c", "/?b=1&a=%s"]
)
def test_every_character_and_every_escape(where: str) -> None:
    pieces = [chr(code) for code in range(256)]
    pieces += [f"%{code:02X}" for code in range(256)]
    pieces += [f"%{code:02x}" for code in range(256)]
    compared, quick, _ = compare("http://a.example" + where % piece for piece in pieces)
    assert compared == 3 * 256
    assert quick > 50 or "&" in where


@pytest.mark.parametrize(
    "request_",
    [
        Request("http://a.example/", method="HEAD"),
        Request("http://a.example/", method="POST", body="x"),
        Request("http://a.example/", body="x"),
        Request("http://a.example/?b=1&a=2#c", meta={"verbatim_url": True}),
        Request("http://a.example/#c", meta={"verbatim_url": False}),
        Request("http://a.example/", headers={"X": "1"}, cookies={"a": "b"}),
        FormRequest("http://a.example/", formdata={"a": "b"}),
    ],
)
def test_other_requests(request_: Request) -> None:
    assert fast(request_) == fingerprint(request_)


def test_other_fingerprinters_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Constant:
        def fingerprint(self, _: Request) -> bytes:
            return b"constant"

    class Heir(RequestFingerprinter):
        def fingerprint(self, request: Request) -> bytes:
            return b"heir" + super().fingerprint(request)

    later = RequestFingerprinter()  # as a later version of Scrapy may have it
    monkeypatch.setattr(later, "_fingerprint", lambda request: b"new " + fast(request))
    request = Request("http://a.example/")
    for own in (Constant(), Heir(), later):
        found = fingerprint_function(own)(request)
        assert found == own.fingerprint(request) != fingerprint(request)


@pytest.mark.parametrize(
    ("request_", "golden"),
    [
        (
            Request("https://example.com/b?z=1&a=2#top"),
            "3821ff94512ddb3d7930e4e11f6756a5b7c7f297",
        ),
        (
            Request("https://example.com/form", method="POST", body=b"\x00\xff"),
            "46ebd864a189d5e674c24e7c38122b934912b6dc",
        ),
    ],
)
def test_fingerprints_are_those_of_scrapy_redis(request_: Request, golden: str) -> None:
    """Made by its own request_fingerprint(): version 0.9.1, with Scrapy 2.19."""
    own: Any = ScrapyRedisFingerprinter()
    assert own.fingerprint(request_).hex() == golden
    assert fingerprint_function(own)(request_).hex() == golden
    assert fingerprint(request_).hex() != golden
