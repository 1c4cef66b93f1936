"""A spider of another name, a fingerprinter of one's own, and a filter not measured."""

from __future__ import annotations

import hashlib

from scrapy import Request

from bloomdupe.filter.layer import Layer
from spiders.follow import Follow


class Other(Follow):
    name = "other"


class PathOnly:
    def fingerprint(self, request: Request) -> bytes:
        url = request.url.partition("?")[0]
        return hashlib.sha1(url.encode(), usedforsecurity=False).digest()


def without_samples() -> None:
    """Let no layer be measured, which reads up to 2,048 of its pages."""
    Layer.fill = _refuse  # type: ignore[method-assign]


def _refuse(self: Layer) -> float:
    raise AssertionError("pages are read")
