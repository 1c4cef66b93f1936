# mypy: ignore-errors
"""Names: identify each output of a page within a crawl, in every run.

The name of an output is made of its parent's name, of the identity that tells it from
the parent's other outputs (``identity``), and of the number
of equal outputs before. So a parent that runs again yields the same names, in any
order, and each output that was accepted before is recognised.
"""

from __future__ import annotations

from collections import Counter

from mmh3 import mmh3_x64_128_digest

START = b"start"
"""Name of ``start()``, which is the parent of its outputs."""


class OutputNames:
    """Names of the outputs of one parent, as it yields them."""

    def __init__(self, parent: bytes) -> None:
        self._parent = parent
        self._before: Counter[bytes] = Counter()

    @property
    def count(self) -> int:
        """Number of outputs that the parent has yielded."""
        return self._before.total()

    def name_of(self, identity: bytes) -> bytes:
        """Return the name of the next output with this identity."""
        number = self._before[identity]
        self._before[identity] += 1
        return child_name(self._parent, identity, number)


def name_of(*parts: bytes) -> bytes:
    """Return a name that is unique to these parts, 16 bytes."""
    return bytes(
        mmh3_x64_128_digest(b"".join(b"%d:%b" % (len(part), part) for part in parts))
    )


def start_name(number: int) -> bytes:
    """Return the name of ``start()`` in a round; rounds are numbered from 1."""
    return START if number == 1 else name_of(START, b"%d" % number)


def child_name(parent: bytes, identity: bytes, number: int) -> bytes:
    """Return the name of an output.

    ``number`` counts from 0 the outputs of the ``parent`` with this identity.
    """
    return name_of(b"child", parent, identity, b"%d" % number)
