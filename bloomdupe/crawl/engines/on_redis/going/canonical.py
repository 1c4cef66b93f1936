# mypy: ignore-errors
# ruff: noqa: ANN401
"""Canonical texts: the same for the same value, in every process.

A value is read level by level: the value, its parts, the parts of those. A shared part,
or a part that contains itself, appears once for each path to it, but is opened once. So
the text does not show sharing, and the work is linear in the number of objects.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import uuid
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy.utils.python import global_object_name

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAIN = frozenset({bool, bytes, float, int, str, type(None)})
AS_TEXT = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    enum.Enum,
    pathlib.PurePath,
    uuid.UUID,
)
DEEPEST = 20
"""Number of levels that are read; all containers below them look the same."""
HEAVIEST = 100_000
"""Greatest weight of the levels that are read. A plain value weighs 1, and 1 more for
each thousand characters of its text. Each value counts once for each path to it.
"""
CONTAINER = 20
"""Weight of a container without its parts; opening it takes so much longer."""
MOST_BITS = 14_000
"""Python refuses to write longer integers in decimal digits."""
UNKNOWN = "None"


def canonical_text(value: object) -> str:
    """Return a text that is the same for the same value.

    It is the ``repr()`` of plain values, nested as the value is. Sets and dictionaries
    are sorted. A value of an unknown type is represented by the name of the type alone.
    """
    text = _text_of(value)
    if text is not None:
        return text
    containers: dict[int, _Container] = {}
    levels: list[dict[int, int]] = []
    level, objects = {id(value): 1}, [value]
    weight = 0
    while level and len(levels) < DEEPEST:
        weight += CONTAINER * sum(level.values())
        if weight > HEAVIEST:
            break
        for each in objects:
            if id(each) not in containers:
                containers[id(each)] = _Container(each)
        weight += sum(n * containers[number].weight for number, n in level.items())
        if weight > HEAVIEST:
            break
        levels.append(level)
        level, objects = _below(level, containers)
    texts: dict[int, str] = {}
    for level in reversed(levels):
        texts = {number: containers[number].text(texts) for number in level}
    return texts.get(id(value), UNKNOWN)


def _below(
    level: dict[int, int], containers: dict[int, _Container]
) -> tuple[dict[int, int], list[object]]:
    """Return the containers of the next level, and how often each appears there."""
    below: dict[int, int] = {}
    objects = []
    for number, times in level.items():
        for part in containers[number].containers:
            if id(part) not in below:
                objects.append(part)
            below[id(part)] = below.get(id(part), 0) + times
    return below, objects


class _Container:
    """A value that has parts. It keeps them, so that no other object has their ids."""

    def __init__(self, value: Any) -> None:
        self._kind = type(value)
        self._value = value
        self._pairs = False
        parts: Iterable[object] = value
        if not isinstance(value, (list, tuple, set, frozenset)):
            self._pairs = True
            try:
                items = value if isinstance(value, dict) else ItemAdapter(value)
                parts = [part for pair in items.items() for part in pair]
            except Exception:  # noqa: BLE001 - whatever the value's own code raises
                parts = ()
        self.containers: list[object] = []
        self._texts: list[str | int] = []
        self.weight = 0
        for part in parts:
            text = _text_of(part)
            if text is None:
                self.containers.append(part)
                self._texts.append(id(part))
            else:
                self._texts.append(text)
                self.weight += 1 + len(text) // 1000

    def text(self, below: dict[int, str]) -> str:
        """Return its text; ``below`` has those of the containers in it, by id."""
        texts = [
            below.get(text, UNKNOWN) if isinstance(text, int) else text
            for text in self._texts
        ]
        if self._pairs:
            texts = [
                f"[{key}, {value}]"
                for key, value in zip(texts[::2], texts[1::2], strict=True)
            ]
        elif isinstance(self._value, (list, tuple)):
            return f"[{', '.join(texts)}]"
        return f"({self._kind.__name__!r}, [{', '.join(sorted(texts))}])"


def _text_of(value: Any) -> str | None:
    """Return the text of a value; None if it has parts."""
    kind = type(value)
    if kind in PLAIN:
        long = kind is int and value.bit_length() > MOST_BITS
        return hex(value) if long else repr(value)
    try:
        if isinstance(value, AS_TEXT):
            return repr((kind.__name__, str(value)))
        if isinstance(value, (list, tuple, set, frozenset, dict)):
            return None
        if ItemAdapter.is_item(value):
            return None
    except Exception:  # noqa: BLE001, S110 - whatever the value's own code raises
        pass
    return repr(global_object_name(kind))
