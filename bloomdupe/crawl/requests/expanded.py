"""The size of values when they are written out, each as often as it is referred to.

Lists that share lists may have 2**100 elements, and take no memory before they are
packed. So the size is worked out first, with a look at each container.
"""

from __future__ import annotations

import collections
import math
from typing import Any

__all__ = ["NOT_PLAIN", "expanded"]

_TEXTS = frozenset({str, bytes, bytearray})
_SEQUENCES = frozenset({list, tuple, set, frozenset})
_MAPS = frozenset(
    {dict, collections.Counter, collections.OrderedDict, collections.defaultdict}
)
_CONTAINERS = _SEQUENCES | _MAPS
_PLAIN_CONTAINERS = frozenset({list, dict})
_PLAIN = frozenset({int, float, bool, type(None)})

NOT_PLAIN = 512
"""Bytes for which a value counts that msgpack has no type for, besides its content.

It takes 10 us, as long as 10 kB of text.
"""


def expanded(container: object) -> float:
    """Return how many bytes a list, a dict or the like has at least.

    Infinity if it contains itself. The content of objects is not looked at.
    """
    return _expanded(container, {})


def _expanded(container: Any, known: dict[int, float]) -> float:  # noqa: ANN401
    size: float = 1 if type(container) in _PLAIN_CONTAINERS else NOT_PLAIN
    parts = container
    if type(container) in _MAPS:
        parts = [*container, *container.values()]
    for part in parts:
        kind = type(part)
        if kind in _TEXTS:
            size += len(part)
        elif kind not in _CONTAINERS:
            size += 1 if kind in _PLAIN else NOT_PLAIN
        elif id(part) in known:
            size += known[id(part)]
        else:
            known[id(part)] = math.inf  # until all of it has been looked at
            known[id(part)] = found = _expanded(part, known)
            size += found
    return size
