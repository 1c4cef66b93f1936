"""The fingerprints of scrapy-redis, for a crawl that has begun there.

The duplicate filter of scrapy-redis has a function of its own: SHA-1 of a JSON text as
Scrapy's, but without its ``headers``. A hash does not show its input, so the
fingerprints cannot be converted, and a crawl that moves keeps this function: set
``REQUEST_FINGERPRINTER_CLASS`` to the class below for as long as the job exists.
"""

from __future__ import annotations

import json
from hashlib import sha1
from typing import TYPE_CHECKING

from w3lib.url import canonicalize_url

if TYPE_CHECKING:
    from scrapy import Request

__all__ = ["ScrapyRedisFingerprinter"]


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
