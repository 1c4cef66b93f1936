"""A spider of another name, a fingerprinter of one's own, and a filter not measured."""

from __future__ import annotations

import hashlib

from scrapy import Request

from spiders.follow import Follow


class Other(Follow):
    name = "other"


class PathOnly:
    def fingerprint(self, request: Request) -> bytes:
        url = request.url.partition("?")[0]
        return hashlib.sha1(url.encode(), usedforsecurity=False).digest()
