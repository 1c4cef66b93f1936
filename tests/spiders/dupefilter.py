"""A spider of another name, and a fingerprinter of one's own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from spiders.follow import Follow

if TYPE_CHECKING:
    from scrapy import Request


class Other(Follow):
    name = "other"


class PathOnly:
    def fingerprint(self, request: Request) -> bytes:
        url = request.url.partition("?")[0]
        return hashlib.sha1(url.encode(), usedforsecurity=False).digest()
