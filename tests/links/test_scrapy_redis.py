"""Fingerprints as scrapy-redis makes them.

The golden ones were made by its own ``RFPDupeFilter().request_fingerprint()``.
"""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter

from bloomdupe.links.fingerprint import ScrapyRedisFingerprinter, fingerprint_function

PAGE = Request("https://example.com/b?z=1&a=2#top")
FORM = Request("https://example.com/form", method="POST", body=b"\x00\xff")

GOLDEN = [
    # By scrapy-redis 0.9.1, with Scrapy 2.19.
    (ScrapyRedisFingerprinter, PAGE, "3821ff94512ddb3d7930e4e11f6756a5b7c7f297"),
    (ScrapyRedisFingerprinter, FORM, "46ebd864a189d5e674c24e7c38122b934912b6dc"),
]


@pytest.mark.parametrize(("class_", "request_", "expected"), GOLDEN)
def test_fingerprints_are_those_of_scrapy_redis(
    class_: Any, request_: Request, expected: str
) -> None:
    assert class_().fingerprint(request_).hex() == expected
    assert fingerprint_function(class_())(request_).hex() == expected
    assert RequestFingerprinter().fingerprint(request_).hex() != expected
