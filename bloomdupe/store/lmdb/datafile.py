"""DataFile: an LMDB data file, read as plain bytes and never through LMDB.

LMDB trusts its file: a damaged file gives wrong answers, or ends the process by a
signal that no ``except`` catches. So a file that may be damaged is read here, page by
page, with ``pread``, and every number in it is checked before it is followed.
"""

from __future__ import annotations

import os
from array import array
from contextlib import ExitStack
from itertools import repeat
from operator import add, gt, lt
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.store.descriptor import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from typing_extensions import Self

MAGIC = 0xBEEFC0DE
DATA_VERSION = 1
HEADS = 2
"""Pages 0 and 1 are heads of the file; the head with the later transaction counts."""
NO_PAGE = (1 << 64) - 1
MAX_DEPTH = 32
MAX_PROBLEMS = 100

# Flags of pages, of nodes, and of the tree of free pages.
BRANCH, LEAF, OVERFLOW, META = 1, 2, 4, 8
INLINE, BIG, SUBTREE = 0, 1, 2
INTEGER_KEYS = 8

FREE = b"free pages"
MAIN = b"databases"

_page_head = Struct("<QHHHH").unpack_from  # number, pad, flags, lower, upper
_extent_head = Struct("<QHHI").unpack_from  # number, pad, flags, pages
_node_head = Struct("<HHHH").unpack_from  # size or child (low, high), flags, key size
_magic = Struct("<II").unpack_from  # magic, version
_tree = Struct("<IHHQQQQQ")
_last = Struct("<QQ").unpack_from  # last page, transaction
_number = Struct("<Q").unpack_from
_HEAD = 16
_TREES = _HEAD + 24
_LAST = _TREES + 2 * _tree.size
_META_BYTES = _LAST + 16


class NotLmdbError(Exception):
    """The file has no heads of LMDB 0.9."""


class _Tree(NamedTuple):
    """The record of a B-tree (``MDB_db``)."""

    page_size: int
    flags: int
    depth: int
    branches: int
    leaves: int
    overflows: int
    entries: int
    root: int


_NO_TREE = _Tree(0, 0, 0, 0, 0, 0, 0, NO_PAGE)


class _Head(NamedTuple):
    """A head of the file (``MDB_meta``)."""

    free: _Tree
    main: _Tree
    last_page: int
    transaction: int


class Leaf(NamedTuple):
    """The records of one leaf page, in order."""

    page: int
    keys: list[bytes]
    values: list[bytes]


class _Walk:
    """A pass over a tree, and its counts."""

    def __init__(self, name: bytes, tree: _Tree) -> None:
        self.name = name.decode(errors="replace")
        self.tree = tree
        self.branches = self.leaves = self.overflows = self.entries = 0
        self.free = name is FREE
        self.kind = SUBTREE if name is MAIN else INLINE


class DataFile:
    """The last commit in an LMDB 0.9 file, as our stores write it.

    Such a file has named databases without flags (no duplicate keys) and 64-bit
    little-endian numbers. :meth:`databases`, then :meth:`records` of each of them, then
    :meth:`finish` follow every page once. Damage is added to :attr:`problems`, and all
    that can still be read is returned; only a file without problems may be handed to
    LMDB. ``progress`` is called with the number of bytes whenever some have been read.

    ``mdb.c`` of LMDB 0.9 defines the layout.
    """

    def __init__(
        self,
        path: Path,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.problems: list[str] = []
        self._progress = progress
        self._fd = open_regular(path)
        with ExitStack() as undo:
            undo.callback(self.close)
            self.page_size = 4096
            self._head = self._read_heads()
            # After the heads, because a commit of another process may come between.
            self.size = os.fstat(self._fd).st_size
            undo.pop_all()
        self.transaction = self._head.transaction
        """Number of the last transaction."""
        # One byte a page: whether it is in use. Pages beyond the end of the file
        # were never written, so they must be free.
        pages = self._head.last_page + 1
        written = self.size // self.page_size
        most = written + max(written, 1 << 18)
        if pages > most:
            self.problem(f"the head counts {pages:,} pages, the file has {written:,}")
        self._used = bytearray(min(pages, most))
        self._free_lists: list[tuple[bytes, bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    @property
    def is_short(self) -> bool:
        """Whether it ends before its last page; to read that in a map would be fatal.

        Unless the page is free: then it was never written.
        """
        return self.size < (self._head.last_page + 1) * self.page_size

    def problem(self, what: str) -> None:
        """Add a problem to the list."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(what)

    def _read_heads(self) -> _Head:
        heads = []
        for number in range(HEADS):
            page = os.pread(self._fd, _META_BYTES, number * self.page_size)
            if len(page) < _META_BYTES:
                raise NotLmdbError(f"head {number} is missing")
            stored, pad, flags, _, _ = _page_head(page)
            free = _Tree(*_tree.unpack_from(page, _TREES))
            main = _Tree(*_tree.unpack_from(page, _TREES + _tree.size))
            if _magic(page, _HEAD) != (MAGIC, DATA_VERSION) or not flags & META:
                raise NotLmdbError(f"head {number} was not written by LMDB 0.9")
            if number == 0:
                self.page_size = free.page_size
                if self.page_size not in [1 << bits for bits in range(9, 16)]:
                    raise NotLmdbError(f"pages of {self.page_size:,} bytes")
            head = _Head(free, main, *_last(page, _LAST))
            if (
                (stored, pad, flags) != (number, 0, META)
                or (free.page_size, free.flags) != (self.page_size, INTEGER_KEYS)
                or (main.page_size, main.flags) != (0, 0)
                # Transaction n writes head n mod 2.
                or (head.transaction and head.transaction % HEADS != number)
            ):
                self.problem(f"head {number} of the file is damaged")
            heads.append(head)
        return max(heads, key=lambda head: head.transaction)

    # Contents

    def databases(self) -> dict[bytes, bytes]:
        """Return the databases: their names, and their roots for :meth:`records`."""
        for leaf in self._walk(_Walk(FREE, self._head.free)):
            self._free_lists += zip(leaf.keys, leaf.values, strict=True)
        found: dict[bytes, bytes] = {}
        for leaf in self._walk(_Walk(MAIN, self._head.main)):
            found.update(zip(leaf.keys, leaf.values, strict=True))
        return found

    def records(self, name: bytes, root: bytes) -> Iterator[Leaf]:
        """Yield the leaves of a database in the order of their keys."""
        walk = _Walk(name, _NO_TREE)
        if len(root) == _tree.size:
            walk.tree = _Tree(*_tree.unpack(root))
        if len(root) != _tree.size or walk.tree.flags or walk.tree.page_size:
            self.problem(f"{walk.name}: its root is damaged")
        yield from self._walk(walk)

    def finish(self) -> None:
        """Check that every page is either in use or free.

        Call it after all records have been read.
        """
        used = self._used
        free = bytearray(len(used))
        for key, value in self._free_lists:
            pages = array("Q", value[: len(value) // 8 * 8])
            size = pages.pop(0) if pages else -1
            if (
                len(value) % 8
                or size != len(pages)
                or not 0 < int.from_bytes(key, "little") <= self.transaction
                or not all(map(gt, pages, pages[1:]))
            ):
                self.problem(f"{FREE.decode()}: a list is damaged")
            for page in pages:
                if not HEADS <= page < len(free) or used[page] or free[page]:
                    self.problem(f"{FREE.decode()}: page {page} is listed wrongly")
                else:
                    free[page] = 1
        if HEADS + used.count(1) + free.count(1) != len(used):
            lost = [
                page
                for page in range(HEADS, len(used))
                if not (used[page] or free[page])
            ]
            self.problem(
                f"{len(lost):,} pages are neither in use nor free, the first of"
                f" them {lost[:1]}"
            )

    # Trees

    def _walk(self, walk: _Walk) -> Iterator[Leaf]:
        tree = walk.tree
        if tree.root != NO_PAGE:
            yield from self._follow(walk, tree.root, 1, None, None)
        found = (walk.branches, walk.leaves, walk.overflows, walk.entries)
        if found != tree[3:7]:
            self.problem(
                f"{walk.name}: {found} branches, leaves, overflow pages and entries"
                f" stand where {tree[3:7]} were written"
            )

    def _follow(
        self,
        walk: _Walk,
        number: int,
        depth: int,
        low: bytes | None,
        high: bytes | None,
    ) -> Iterator[Leaf]:
        """Yield the leaves below a page; their keys are from ``low`` to ``high``."""
        page = self._page(walk, number)
        if page is None:
            return
        deepest = depth == walk.tree.depth
        stored, pad, flags, lower, upper = _page_head(page)
        if (
            (stored, pad, flags) != (number, 0, LEAF if deepest else BRANCH)
            or depth > MAX_DEPTH
            or lower % 2
            or not _HEAD < lower <= upper <= self.page_size
        ):
            self.problem(f"{walk.name}: page {number} is damaged")
            return
        if deepest:
            walk.leaves += 1
            leaf = self._leaf(walk, number, page)
            walk.entries += len(leaf.keys)
            self._check_order(walk, number, leaf.keys, low, high)
            yield leaf
            return
        walk.branches += 1
        keys, children = self._branch(walk, number, page)
        self._check_order(walk, number, keys[1:], low, high)
        bounds = [low, *keys[1:], high]
        for index, child in enumerate(children):
            lowest, end = bounds[index], bounds[index + 1]
            yield from self._follow(walk, child, depth + 1, lowest, end)

    def _check_order(
        self,
        walk: _Walk,
        number: int,
        keys: list[bytes],
        low: bytes | None,
        high: bytes | None,
    ) -> None:
        if not keys:
            return
        if walk.free:  # numbers, little-endian
            keys = [key[::-1] for key in keys]
            low, high = low and low[::-1], high and high[::-1]
        if (
            not all(map(lt, keys, keys[1:]))
            or (low is not None and keys[0] < low)
            or (high is not None and keys[-1] >= high)
        ):
            self.problem(f"{walk.name}: keys of page {number} are out of order")

    def _page(self, walk: _Walk, number: int, pages: int = 1) -> bytes | None:
        """Read pages, and refuse pages that are in use already."""
        used = self._used
        if number < HEADS or number + pages > len(used):
            self.problem(f"{walk.name}: there is no page {number}")
            return None
        if any(used[number : number + pages]):
            self.problem(f"{walk.name}: page {number} is used twice")
            return None
        used[number : number + pages] = b"\1" * pages
        size = pages * self.page_size
        page = os.pread(self._fd, size, number * self.page_size)
        if len(page) != size:
            self.problem(f"{walk.name}: page {number} is beyond the file's end")
            return None
        if self._progress is not None:
            self._progress(size)
        return page

    def _branch(
        self, walk: _Walk, number: int, page: bytes
    ) -> tuple[list[bytes], list[int]]:
        """Return the least keys of the children, and their page numbers."""
        keys, children, places, ends = [], [], self._places(page), []
        for at in places:
            if at > self.page_size - 8:
                break
            low, middle, top, size = _node_head(page, at)
            keys.append(page[at + 8 : at + 8 + size])
            children.append(low | middle << 16 | top << 32)
            ends.append(at + 8 + size + size % 2)
        # LMDB insists on two children, except among the free pages.
        if len(children) < 2 - walk.free or not self._tiled(page, places, ends):
            self.problem(f"{walk.name}: page {number} is damaged")
        return keys, children

    def _leaf(self, walk: _Walk, number: int, page: bytes) -> Leaf:
        places = self._places(page)
        alike = self._alike(page, places)
        if alike is not None:
            return Leaf(number, *alike)
        # One step at a time for all nodes, because that is fast in CPython.
        keys: list[bytes] = []
        values: list[bytes] = []
        try:
            heads = [_node_head(page, at) for at in places]
        except StructError:
            self.problem(f"{walk.name}: page {number} is damaged")
            return Leaf(number, keys, values)
        starts = [at + 8 + head[3] for at, head in zip(places, heads, strict=True)]
        keys = [page[at + 8 : end] for at, end in zip(places, starts, strict=True)]
        ends = []
        for start, (size, high, kind, _) in zip(starts, heads, strict=True):
            if kind == walk.kind and not high:
                end = start + size
                values.append(page[start:end])
            elif kind == BIG and start + 8 <= self.page_size:
                end = start + 8
                extent = _number(page, start)[0]
                values.append(self._extent(walk, extent, size | high << 16))
            else:
                end = 0
                values.append(b"")
            ends.append(end + end % 2)
        if not self._tiled(page, places, ends):
            self.problem(f"{walk.name}: page {number} is damaged")
        return Leaf(number, keys, values)

    def _alike(
        self, page: bytes, places: tuple[int, ...]
    ) -> tuple[list[bytes], list[bytes]] | None:
        """Read a leaf of keys of one size without values, much faster."""
        first = page[places[0] : places[0] + 8]
        key_size = first[6] | first[7] << 8 if first[:6] == bytes(6) else 0
        node = 8 + key_size + key_size % 2
        upper = self.page_size - node * len(places)
        if (
            key_size == 0
            or upper != _page_head(page)[4]
            or sorted(places) != [*range(upper, self.page_size, node)]
            or any(
                page[upper + at :: node].count(first[at]) != len(places)
                for at in range(8)
            )
        ):
            return None
        keys = [page[at : at + key_size] for at in map(add, places, repeat(8))]
        return keys, [b""] * len(keys)

    def _places(self, page: bytes) -> tuple[int, ...]:
        """Return the offsets of the nodes of a page."""
        count = (_page_head(page)[3] - _HEAD) // 2
        return _places[count](page, _HEAD)

    def _tiled(self, page: bytes, places: tuple[int, ...], ends: list[int]) -> bool:
        """Whether nodes fill the page from ``upper`` to its end, as LMDB packs them."""
        upper = _page_head(page)[4]
        return [upper, *sorted(ends)] == [*sorted(places), self.page_size]

    def _extent(self, walk: _Walk, number: int, size: int) -> bytes:
        """Read a value that has pages of its own."""
        pages = (_HEAD - 1 + size) // self.page_size + 1
        extent = self._page(walk, number, pages)
        if extent is None:
            return b""
        walk.overflows += pages
        stored, pad, flags, claimed = _extent_head(extent)
        if (stored, pad, flags, claimed) != (number, 0, OVERFLOW, pages):
            self.problem(f"{walk.name}: page {number} is damaged")
        return extent[_HEAD : _HEAD + size]


class _PlacesOf(dict[int, "Callable[[bytes, int], tuple[int, ...]]"]):
    """``unpack_from`` for a given count of 16-bit numbers."""

    def __missing__(self, count: int) -> Callable[[bytes, int], tuple[int, ...]]:
        self[count] = Struct(f"<{count}H").unpack_from
        return self[count]


_places = _PlacesOf()
