"""Removal: removes a frontier from Redis, with all its keys."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from bloomdupe.redis.address import ELSEWHERE, Address
from bloomdupe.redis.frontier_header import header_in
from bloomdupe.redis.server import Server
from bloomdupe.redis.shared_import import REMOVING, Imports

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        partitions = header_in(server.fields(), server.address)["partitions"]
        Imports(server).begin({REMOVING: True})
        names = _names(server.address.name, partitions)
        pattern = "bloomdupe:{" + GLOB.sub(r"\\\1", server.address.name) + "*"
        found = (
            key
            for key in server.keys(pattern, AT_ONCE)
            if key != head.encode() and _tag_of(key) in names
        )
        removed = 0
        while some := list(islice(found, AT_ONCE)):
            removed += server.remove(some)
        # Removed last: it tells that a removal goes on, and refuses workers.
        return removed + server.remove([head.encode()])
    finally:
        server.close()


def _names(name: str, partitions: int) -> frozenset[bytes]:
    parts: Iterable[str] = map(str, range(partitions))
    names = [name, name + ELSEWHERE, *(f"{name}:{part}" for part in parts)]
    return frozenset(name.encode() for name in names)


def _tag_of(key: bytes) -> bytes:
    """Return the text between the braces."""
    return key[key.index(b"{") + 1 : key.index(b"}")] if b"}" in key else b""
