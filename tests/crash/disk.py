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
from typing import NamedTuple

from strace import Call

SECTOR = 512
PAGE = 4096

TRACE = (
    "openat", "close", "lseek", "write", "writev", "pwrite64", "ftruncate", "rename",
    "mkdir", "unlink", "unlinkat", "rmdir", "fsync", "fdatasync",
)  # fmt: skip
STRACE_OPTIONS = ("-xx", "-s", "100000000")
"""All strings whole, in hexadecimal."""
SHARES = {"nothing": 0.0, "few": 0.05, "most": 0.95, "torn": 1.0, "all": 1.0}
"""How much of the cache a power cut has left; a half of it in all other ways."""


class Write(NamedTuple):
    """Bytes at a place of a file; or, with ``data`` None, a new length."""

    offset: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.offset :]
            content.extend(bytes(self.offset - len(content)))
            return
        end = self.offset + len(self.data)
        content.extend(bytes(max(0, end - len(content))))
        content[self.offset : end] = self.data

    def pieces(self, unit: int) -> Iterator[Write]:
        """Yield it piece by piece: what it writes to each aligned unit of the file."""
        if self.data is None:
            yield self
            return
        position, end = self.offset, self.offset + len(self.data)
        while position < end:
            after = min(end, position - position % unit + unit)
            piece = self.data[position - self.offset : after - self.offset]
            yield Write(position, piece)
            position = after


@dataclass(eq=False)
class File:
    """A file: its safe data, and its writes since, in order."""

    safe: bytearray = field(default_factory=bytearray)
    cached: list[Write] = field(default_factory=list)

    def sync(self) -> None:
        for write in self.cached:
            write.apply(self.safe)
        self.cached.clear()

    def build(self, target: Path, rng: random.Random) -> None:
        """Write a content that it may have after a power cut."""
        content = bytearray(self.safe)
        way = rng.choice([*SHARES, "pages", "sectors"])
        share = SHARES.get(way, 0.5)
        for number, write in enumerate(self.cached):
            if way == "torn" and number == len(self.cached) - 1:
                share = 0.5
            for piece in write.pieces(PAGE if way == "pages" else SECTOR):
                if rng.random() < share:
                    piece.apply(content)
        target.write_bytes(content)


@dataclass(eq=False)
class Directory:
    """A directory: the names that are safe, and the changes since, in order.

    A change gives names their files, or takes them away; a rename does both at once.
    """

    safe: dict[str, File | Directory] = field(default_factory=dict)
    cached: list[dict[str, File | Directory | None]] = field(default_factory=list)

    def names(self, changes: int | None = None) -> dict[str, File | Directory]:
        """Return the names after so many of the changes, or after all of them."""
        found: dict[str, File | Directory | None] = {**self.safe}
        for change in self.cached[:changes]:
            found |= change
        return {name: what for name, what in found.items() if what is not None}

    def sync(self) -> None:
        self.safe = self.names()
        self.cached.clear()

    def build(self, target: Path, rng: random.Random) -> None:
        """Make the files that a power cut now may leave."""
        target.mkdir()
        most = len(self.cached)
        reached = rng.choice([0, most, rng.randint(0, most)])
        for name, what in self.names(reached).items():
            what.build(target / name, rng)


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

    def replay(self, calls: list[Call]) -> Iterator[Call]:
        """Do one call after the other; yield each that matters while it is in progress.

        While it is, its own effect counts as cached.
        """
        for call in calls:
            if call.result.startswith("-") or call.result == "?":
                continue
            effect = getattr(self, f"_{call.name}")
            if effect(call.arguments, int(call.result)):
                yield call
                handle = self._handle(call.arguments)
                syncs = call.name in {"fsync", "fdatasync"}
                if handle is not None and (syncs or handle.dsync):
                    handle.what.sync()

    def _handle(self, arguments: str) -> Handle | None:
        """Return the open file that is the first argument, if it is below the root."""
        number = re.match(r"\d+", arguments)
        return self.handles.get(int(number[0])) if number else None

    def _path(self, text: str) -> str:
        """Return a path, from the root if it does not say otherwise."""
        path = bytes.fromhex(text.replace("\\x", "")).decode()
        return os.path.normpath(Path(self.root, path))

    def _places(self, arguments: str) -> list[tuple[Directory, str]]:
        """Return directory and name of each quoted path that is below the root."""
        found = []
        for text in re.findall(r'"(.*?)"', arguments):
            path, prefix = self._path(text), f"{self.root}/"
            if not path.startswith(prefix):
                continue
            directory: File | Directory | None = self.top
            *parents, name = path[len(prefix) :].split("/")
            for parent in parents:
                if isinstance(directory, Directory):
                    directory = directory.names().get(parent)
            if isinstance(directory, Directory):
                found.append((directory, name))
        return found

    def _openat(self, arguments: str, result: int) -> bool:
        self.handles.pop(result, None)
        if "O_TMPFILE" in arguments:  # has no name, and goes with its process
            return False
        for directory, name in self._places(arguments):
            found = directory.names().get(name)
            created = found is None
            if found is None:
                found = File()
                directory.cached.append({name: found})
            self.handles[result] = Handle(found, dsync="O_DSYNC" in arguments)
            return created
        if self._path(arguments.split('"')[1]) == str(self.root):
            self.handles[result] = Handle(self.top, dsync=False)
        return False

    def _close(self, arguments: str, _: int) -> bool:
        self.handles.pop(int(arguments), None)
        return False

    def _lseek(self, arguments: str, result: int) -> bool:
        if handle := self._handle(arguments):
            handle.position = result
        return False

    def _write(self, arguments: str, result: int) -> bool:
        handle = self._handle(arguments)
        if arguments.startswith("1,"):
            self.report += _data(arguments)
        if handle is None:
            return False
        handle.position += result
        return _put(handle, Write(handle.position - result, _data(arguments)[:result]))

    _writev = _write

    def _pwrite64(self, arguments: str, result: int) -> bool:
        offset = int(arguments.rpartition(", ")[2])
        return _put(self._handle(arguments), Write(offset, _data(arguments)[:result]))

    def _ftruncate(self, arguments: str, _: int) -> bool:
        length = int(arguments.rpartition(", ")[2])
        return _put(self._handle(arguments), Write(length, None))

    def _fsync(self, arguments: str, _: int) -> bool:
        return self._handle(arguments) is not None

    _fdatasync = _fsync

    def _mkdir(self, arguments: str, _: int) -> bool:
        return self._change(arguments, Directory())

    def _unlink(self, arguments: str, _: int) -> bool:
        return self._change(arguments, None)

    _rmdir = _unlink

    def _change(self, arguments: str, what: Directory | None) -> bool:
        places = self._places(arguments)
        for directory, name in places:
            directory.cached.append({name: what})
        return bool(places)

    def _rename(self, arguments: str, _: int) -> bool:
        places = self._places(arguments)
        if len(places) < 2:
            return False
        (directory, old), (other, new) = places
        assert directory is other, arguments
        directory.cached.append({new: directory.names()[old], old: None})
        return True


def _put(handle: Handle | None, write: Write) -> bool:
    """Cache a write to a file; return whether it is one below the root."""
    if handle is None or not isinstance(handle.what, File):
        return False
    handle.what.cached.append(write)
    return True


def _data(arguments: str) -> bytes:
    texts = re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)
    return bytes.fromhex("".join(texts).replace("\\x", ""))
