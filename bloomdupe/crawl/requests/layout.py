"""Elements: the numbers by which a stored request names its attributes.

:mod:`bloomdupe.crawl.requests.serializer` explains, writes and reads them. Nothing here
needs Scrapy, so a verb of the command line can describe a request without waiting for
Scrapy to be imported.
"""

from __future__ import annotations

ARRAYS = frozenset(range(0x91, 0x97))
"""First bytes of msgpack arrays of one to six elements."""

CALLBACK, ERRBACK, CLASS, OTHERS, EXTRAS, PARTIALS = 1, 2, 13, 14, 15, 16
METHOD, HEADERS, BODY, COOKIES, META, ENCODING = range(3, 9)
PRIORITY, DONT_FILTER, FLAGS, CB_KWARGS = range(9, 13)

PLAIN = {
    METHOD: "method",
    HEADERS: "headers",
    BODY: "body",
    COOKIES: "cookies",
    META: "meta",
    ENCODING: "encoding",
    PRIORITY: "priority",
    DONT_FILTER: "dont_filter",
    FLAGS: "flags",
    CB_KWARGS: "cb_kwargs",
}
"""Attributes that are stored as they are."""

INTEGER = 4
"""Extension type of msgpack for an integer beyond 64 bits, in hexadecimal digits."""
