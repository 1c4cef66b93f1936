"""The fingerprints of scrapy-redis, for a crawl that has begun there.

The duplicate filter of scrapy-redis has a function of its own, and Scrapy's gives other
bytes. A hash does not show its input, so the fingerprints cannot be converted. A crawl
that moves therefore keeps the fingerprints with which it has begun: set
``REQUEST_FINGERPRINTER_CLASS`` to a class below for as long as the job exists.

===================================== ==============================================
class                                 SHA-1 of
===================================== ==============================================
:class:`ScrapyRedisFingerprinter`     a JSON text of method, canonical URL and body,
                                      as Scrapy's own, but without its ``headers``
:class:`ScrapyRedis07Fingerprinter`   method, canonical URL and body in sequence, as
                                      in Scrapy up to 2.6
===================================== ==============================================
"""

from __future__ import annotations

import json
from hashlib import sha1
from typing import TYPE_CHECKING

from w3lib.url import canonicalize_url

if TYPE_CHECKING:
    from scrapy import Request

__all__ = ["ScrapyRedis07Fingerprinter", "ScrapyRedisFingerprinter"]


class ScrapyRedisFingerprinter:
    """Makes the fingerprints of scrapy-redis 0.8 to 0.9."""

    bloomdupe_early = True

    def fingerprint(self, request: Request) -> bytes:
        """Return the fingerprint of a request."""
        text = json.dumps(
            {
                "body": request.body.hex(),
                "method": request.method,
                "url": canonicalize_url(request.url),
            }
        )
        return sha1(text.encode()).digest()  # noqa: S324 - as scrapy-redis does


class ScrapyRedis07Fingerprinter:
    """Makes the fingerprints of scrapy-redis up to 0.7."""

    bloomdupe_early = True

    def fingerprint(self, request: Request) -> bytes:
        """Return the fingerprint of a request."""
        hashed = sha1(request.method.encode())  # noqa: S324 - as scrapy-redis does
        hashed.update(canonicalize_url(request.url).encode())
        hashed.update(request.body)
        return hashed.digest()
