"""Disk: the data that a power cut may leave of the writes of a process.

Replays the system calls of a strace log on a model of a file system and of the
cache in front of it, the worst that POSIX allows: a file's data is safe when
``fsync`` or ``fdatasync`` of it has returned, or a write with ``O_DSYNC``; a name
is safe when ``fsync`` of its directory has returned. Until then each 512-byte
sector may have been written, or an older version of it, or none, in any order. The
changes of one directory reach the disk in their order.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from strace import Call

SECTOR = 512
PAGE = 4096

TRACE = (
    "openat", "close", "lseek", "write", "writev", "pwrite64", "ftruncate", "rename",
    "mkdir", "unlink", "unlinkat", "rmdir", "fsync", "fdatasync",
)  # fmt: skip
STRACE_OPTIONS = ("-xx", "-s", "100000000")
"""All strings whole, in hexadecimal."""


@dataclass(frozen=True)
class Write:
    """Bytes at a place of a file; or, with ``data`` None, a new length."""

    offset: int
    data: bytes | None


@dataclass(eq=False)
class File:
    """A file: its safe data, and its writes since, in order."""

    safe: bytearray = field(default_factory=bytearray)
    cached: list[Write] = field(default_factory=list)

    def sync(self) -> None:
        for write in self.cached:
            _apply(self.safe, write)
        self.cached.clear()


@dataclass(eq=False)
class Directory:
    """A directory: the names that are safe, and the changes since, in order."""

    safe: dict[str, File | Directory] = field(default_factory=dict)
    cached: list[tuple[str, File | Directory | None]] = field(default_factory=list)

    @property
    def names(self) -> dict[str, File | Directory]:
        return _renamed(self.safe, self.cached)

    def sync(self) -> None:
        self.safe = self.names
        self.cached.clear()


@dataclass
class Handle:
    """An open file."""

    what: File | Directory
    dsync: bool
    position: int = 0


class Disk:
    """Files below ``root``, as a log of calls changes them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.top = Directory()
        self.handles: dict[int, Handle] = {}
        self.report = b""
        """The bytes on standard output."""

    # Replaying

    def replay(self, calls: list[Call]) -> Iterator[Call]:
        """Do one call after the other; yield each that matters while it is in progress.

        While it is, its own effect counts as cached.
        """
        for call in calls:
            if call.result.startswith("-") or call.result == "?":
                continue
            effect = getattr(self, f"_{call.name}")
            matters = effect(call.arguments, int(call.result))
            if matters:
                yield call
                self._returned(call)

    def _returned(self, call: Call) -> None:
        number = re.match(r"\d+", call.arguments)
        handle = self.handles.get(int(number[0])) if number else None
        if handle is not None and (call.name in {"fsync", "fdatasync"} or handle.dsync):
            handle.what.sync()

    def _path(self, text: str) -> str:
        """Return a path, from the root if it does not say otherwise."""
        path = bytes.fromhex(text.replace("\\x", "")).decode()
        return os.path.normpath(Path(self.root, path))

    def _place(self, text: str) -> tuple[Directory, str] | None:
        """Return directory and name of a quoted path, if it is below the root."""
        path = self._path(text)
        prefix = f"{self.root}/"
        if not path.startswith(prefix):
            return None
        directory = self.top
        *parents, name = path[len(prefix) :].split("/")
        for parent in parents:
            inner = directory.names.get(parent)
            if not isinstance(inner, Directory):
                return None
            directory = inner
        return directory, name

    def _paths(self, arguments: str) -> list[tuple[Directory, str] | None]:
        return [self._place(text) for text in re.findall(r'"(.*?)"', arguments)]

    def _openat(self, arguments: str, result: int) -> bool:
        (text,) = re.findall(r'"(.*?)"', arguments)
        place = self._place(text)
        if place is None:
            if self._path(text) == str(self.root):
                self.handles[result] = Handle(self.top, dsync=False)
            return False
        if "O_TMPFILE" in arguments:  # has no name, and goes with its process
            self.handles.pop(result, None)
            return False
        directory, name = place
        found = directory.names.get(name)
        created = found is None
        if found is None:
            found = File()
            directory.cached.append((name, found))
        self.handles[result] = Handle(found, dsync="O_DSYNC" in arguments)
        return created

    def _close(self, arguments: str, _: int) -> bool:
        self.handles.pop(int(arguments), None)
        return False

    def _lseek(self, arguments: str, result: int) -> bool:
        handle = self.handles.get(int(arguments.split(",")[0]))
        if handle is not None:
            handle.position = result
        return False

    def _write(self, arguments: str, result: int) -> bool:
        number, data = _data(arguments)
        if number == 1:
            self.report += data
            return False
        handle = self.handles.get(number)
        if handle is None:
            return False
        handle.position += result
        return self._put(number, handle.position - result, data[:result])

    _writev = _write

    def _pwrite64(self, arguments: str, result: int) -> bool:
        number, data = _data(arguments)
        offset = int(arguments.rpartition(", ")[2])
        return self._put(number, offset, data[:result])

    def _put(self, number: int, offset: int, data: bytes) -> bool:
        handle = self.handles.get(number)
        if handle is None or not isinstance(handle.what, File):
            return False
        handle.what.cached.append(Write(offset, data))
        return True

    def _ftruncate(self, arguments: str, _: int) -> bool:
        number, length = map(int, arguments.split(", "))
        handle = self.handles.get(number)
        if handle is None or not isinstance(handle.what, File):
            return False
        handle.what.cached.append(Write(length, None))
        return True

    def _fsync(self, arguments: str, _: int) -> bool:
        return int(arguments) in self.handles

    _fdatasync = _fsync

    def _mkdir(self, arguments: str, _: int) -> bool:
        (place,) = self._paths(arguments)
        if place is None:
            return False
        place[0].cached.append((place[1], Directory()))
        return True

    def _rename(self, arguments: str, _: int) -> bool:
        old, new = self._paths(arguments)
        if old is None or new is None:
            return False
        # Both names change at once: the new one first in the list, so that no cut
        # between the two, which no file system allows, leaves neither.
        new[0].cached.append((new[1], old[0].names[old[1]]))
        old[0].cached.append((old[1], None))
        return True

    def _unlink(self, arguments: str, _: int) -> bool:
        (place,) = self._paths(arguments)
        if place is None:
            return False
        place[0].cached.append((place[1], None))
        return True

    _rmdir = _unlink

    def _unlinkat(self, arguments: str, _: int) -> bool:
        raise NotImplementedError(f"unlinkat({arguments})")

    # Cutting the power

    def build(self, target: Path, rng: random.Random) -> None:
        """Make the files that a power cut now may leave in ``target``."""
        self._build_directory(self.top, target, rng)

    def _build_directory(
        self, directory: Directory, target: Path, rng: random.Random
    ) -> None:
        target.mkdir()
        reached = rng.choice([0, len(directory.cached), None])
        if reached is None:
            reached = rng.randint(0, len(directory.cached))
        for name, inner in _renamed(directory.safe, directory.cached[:reached]).items():
            if isinstance(inner, Directory):
                self._build_directory(inner, target / name, rng)
            else:
                (target / name).write_bytes(_survivor(inner, rng))


def _renamed(
    names: dict[str, File | Directory],
    changes: list[tuple[str, File | Directory | None]],
) -> dict[str, File | Directory]:
    names = dict(names)
    moved: File | Directory | None = None
    for name, what in changes:
        if what is None:
            del names[name]
        else:
            names[name] = moved = what
    # Half of a rename: the old name has gone, too.
    for name, what in list(names.items()):
        if what is moved and name != _last_name(changes, moved):
            del names[name]
    return names


def _last_name(
    changes: list[tuple[str, File | Directory | None]], what: File | Directory
) -> str:
    return next(name for name, found in reversed(changes) if found is what)


def _data(arguments: str) -> tuple[int, bytes]:
    number = int(arguments.split(",")[0])
    texts = re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)
    return number, bytes.fromhex("".join(texts).replace("\\x", ""))


def _apply(content: bytearray, write: Write) -> None:
    if write.data is None:
        del content[write.offset :]
        content.extend(bytes(write.offset - len(content)))
        return
    end = write.offset + len(write.data)
    content.extend(bytes(max(0, end - len(content))))
    content[write.offset : end] = write.data


def _survivor(file: File, rng: random.Random) -> bytes:
    """Return a content that a file may have after a power cut."""
    content = bytearray(file.safe)
    way = rng.choice(["nothing", "all", "torn", "pages", "sectors", "few", "most"])
    share = {"few": 0.05, "most": 0.95}.get(way, 0.5)
    for number, write in enumerate(file.cached):
        if way == "nothing":
            continue
        torn = way == "torn" and number == len(file.cached) - 1
        if way == "all" or (way == "torn" and not torn):
            _apply(content, write)
        elif write.data is None:
            if rng.random() < share:
                _apply(content, write)
        else:
            unit = PAGE if way == "pages" else SECTOR
            _apply_some(content, write.offset, write.data, unit, share, rng)
    return bytes(content)


def _apply_some(
    content: bytearray,
    offset: int,
    data: bytes,
    unit: int,
    share: float,
    rng: random.Random,
) -> None:
    """Write some of the units (aligned blocks) that the data touches."""
    position = 0
    while position < len(data):
        length = unit - (offset + position) % unit
        if rng.random() < share:
            piece = Write(offset + position, data[position : position + length])
            _apply(content, piece)
        position += length
