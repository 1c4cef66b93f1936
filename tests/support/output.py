"""Output: items as workers put them out to Redis, as lines of JSON."""

from __future__ import annotations

from itemadapter.adapter import ItemAdapter
from scrapy import Spider
from scrapy.utils.serialize import ScrapyJSONEncoder

from bloomdupe.feeds.journal import Journal
from bloomdupe.requests.serializer import Serializer

_serializer = Serializer(Spider("any"))


def lines_in(data: bytes) -> list[tuple[int, str]]:
    """Return an item as a line of JSON, with the number of each of its feeds."""
    numbers, packed = Journal.unpacked(data)
    item = ItemAdapter(_serializer.load_value(packed)).asdict()
    return [(number, ScrapyJSONEncoder().encode(item)) for number in numbers]


def packed(item: object, *numbers: int) -> bytes:
    """Return an item as a worker puts it out for these feeds."""
    return Journal.packed(numbers, _serializer.dump_item(item))
