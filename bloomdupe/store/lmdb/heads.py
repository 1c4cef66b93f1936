"""Heads: the first two pages of a data file, read without LMDB.

LMDB trusts its file, so the heads are read here before LMDB maps it. Transaction n
writes head n mod 2, and the later head counts. ``mdb.c`` of LMDB 0.9 has the layout.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.store.descriptor import open_regular

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = 0xBEEFC0DE
VERSION = 1
HEADS = 2
META = 8
"""Flag of a page that is a head."""
INTEGER_KEYS = 8
"""The only flag of the tree of free pages; the tree of databases has none."""

_head = Struct("<QHH4x II16x IH42x IH42x QQ")
"""Number, pad and flags of the page; magic, version; page size and flags of the tree
of free pages; the same two fields of the tree of databases, which has no page size;
last page, transaction."""


class NotLmdbError(Exception):
    """The file has no heads of LMDB 0.9."""


class Head(NamedTuple):
    """The head that counts."""

    transaction: int
    """Number of the last transaction."""
    problems: list[str]
    """What is wrong with one of the heads."""
    is_short: bool
    """Whether the file ends before its last page; to read that in a map would be fatal.

    Unless the page is free: then it was never written.
    """


def read_head(data: Path) -> Head:
    """Read both heads; refuse a file of another kind."""
    problems = []
    heads = []
    page_size = 0
    fd = open_regular(data)
    try:
        for number in range(HEADS):
            page = os.pread(fd, _head.size, number * page_size)
            if len(page) < _head.size:
                raise NotLmdbError(f"head {number} is missing")
            stored, pad, flags, magic, version, *trees, last, transaction = (
                _head.unpack(page)
            )
            if (magic, version) != (MAGIC, VERSION) or not flags & META:
                raise NotLmdbError(f"head {number} was not written by LMDB 0.9")
            if number == 0:
                page_size = trees[0]
                if page_size not in [1 << bits for bits in range(9, 16)]:
                    raise NotLmdbError(f"pages of {page_size:,} bytes")
            if (
                (stored, pad, flags) != (number, 0, META)
                or trees != [page_size, INTEGER_KEYS, 0, 0]
                or (transaction and transaction % HEADS != number)
            ):
                problems.append(f"head {number} of the file is damaged")
            heads.append((transaction, last))
        # After the heads, because a commit of another process may come between.
        size = os.fstat(fd).st_size
    finally:
        os.close(fd)
    transaction, last = max(heads)
    return Head(transaction, problems, size < (last + 1) * page_size)
