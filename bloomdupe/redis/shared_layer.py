"""SharedLayer: the pages of a filter on Redis, read by other filters."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from bitarray import bitarray

from bloomdupe.errors import StoreDamagedError
from bloomdupe.filter.contents import Contents
from bloomdupe.filter.layer import BEYOND, Layer
from bloomdupe.filter.sizing import PAGE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.filter.parameters import Parameters
    from bloomdupe.redis.record import Record
    from bloomdupe.redis.server import Server

__all__ = ["PAGES_AT_ONCE", "PAGE_BYTES", "contents"]

PAGE_BYTES = PAGE_BITS // 8

PAGES_AT_ONCE = 64
"""Pages (8 kB each) per command."""


class SharedLayer(Layer):
    """A layer that is only read here; scripts in Redis change it.

    Its pages are fetched when they are needed, and not kept.
    """

    keeps_pages = False

    def __init__(self, number: int, server: Server, record: Record) -> None:
        super().__init__(number, record.layers[number])
        self.keys = record.keys[number]
        self._server = server
        self._record = record

    def some_pages(self, numbers: range) -> Iterator[bitarray]:
        """Fetch pages, many at once."""
        address = self._server.address
        wanted = iter(numbers)
        while some := list(islice(wanted, PAGES_AT_ONCE)):
            names = [
                self._record.page_name(address, self.number, page) for page in some
            ]
            for name, value in zip(names, self._server.values(names), strict=True):
                if value is not None and len(value) != PAGE_BYTES:
                    raise StoreDamagedError(
                        f"{address.shown}: the key {name} has {len(value):,} bytes"
                        f" instead of {PAGE_BYTES:,}; restore the data of Redis from a"
                        " backup"
                    )
                page = bitarray(endian="little")
                page.frombytes((value or bytes(PAGE_BYTES)) + BEYOND)
                yield page


def contents(parameters: Parameters, server: Server, record: Record) -> Contents:
    """Return the contents of a filter on Redis, for other filters to read."""
    found = Contents(parameters, None)
    found.layers = [
        SharedLayer(number, server, record) for number in range(len(record.layers))
    ]
    return found
