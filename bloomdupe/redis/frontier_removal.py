"""Removal: removes a frontier from Redis, with all its keys."""

from __future__ import annotations

import re
from itertools import islice

from bloomdupe.errors import StoreError
from bloomdupe.redis.frontier_header import header_in
from bloomdupe.redis.server import Server
from bloomdupe.store.redis.address import Address

__all__ = ["remove_frontier"]

AT_ONCE = 1_000
"""Keys per command. Redis releases their memory in a thread of its own."""
GLOB = re.compile(r"([*?\[\]\\])")
"""Wildcards in a pattern of Redis."""


def remove_frontier(url: str) -> int:
    """Remove the frontier that a URL names; return the number of its keys.

    Call it again if it was interrupted: workers are refused until then. It takes as
    long as Redis needs to go through the names of all its keys.

    Raises :class:`~bloomdupe.errors.StoreError` while workers are running.
    """
    server = Server(Address.of(url))
    try:
        head = server.address.head
        header_in(server.fields(), server.address)  # or it is no frontier
        if workers := server.run("remove"):
            raise StoreError(
                f"{server.address.shown}: workers are there ({workers}), which would"
                " lose their requests in progress. Stop them (Ctrl-C once each); a"
                " killed worker is gone when BLOOMDUPE_REDIS_LEASE has run out"
            )
        found = server.keys(GLOB.sub(r"\\\1", head) + ":*", AT_ONCE)
        removed = 0
        while some := list(islice(found, AT_ONCE)):
            removed += server.remove(some)
        # Removed last: it tells that a removal goes on, and refuses workers.
        return removed + server.remove([head.encode()])
    finally:
        server.close()
