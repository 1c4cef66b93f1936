"""Output: items as workers put them out to Redis, as lines of JSON."""

from __future__ import annotations

from itemadapter.adapter import ItemAdapter
from scrapy.utils.serialize import ScrapyJSONEncoder

from bloomdupe.feeds import journal
from bloomdupe.requests.values import pack_texts, unpack


def lines_in(data: bytes) -> list[tuple[int, str]]:
    """Return an item as a line of JSON, with the number of each of its feeds."""
    numbers, packed = journal.unpacked(data)
    item = ItemAdapter(unpack(packed)).asdict()
    return [(number, ScrapyJSONEncoder().encode(item)) for number in numbers]


def packed(item: object, *numbers: int) -> bytes:
    """Return an item as a worker puts it out for these feeds."""
    return journal.packed(numbers, pack_texts(item))
