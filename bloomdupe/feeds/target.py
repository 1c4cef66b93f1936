"""Target: a local file that gets a delivery as a whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mmh3 import mmh3_x64_128_digest

from bloomdupe.feeds.file import read_bytes
from bloomdupe.store.files import make_directory, sync_directory
from bloomdupe.store.platform import sync

if TYPE_CHECKING:
    from scrapy import Spider

TAIL_BYTES = 4096
"""Bytes at the end of a file by which it is recognized."""


class Target:
    """Replaces Scrapy's storage for local files.

    The new content is written to another file beside the place, which is then renamed.
    It begins with the first ``base`` bytes of the present content. ``last`` is what
    :meth:`prepare` has returned before, by which it is recognized:

    ``base``   bytes before the items of the delivery
    ``start``  position in the journal of these items
    ``ends``   sizes of the file, with digests of the last 4,096 bytes, that the
               delivery has left, or may have left

    A file that is as it was left gets its last items again, with the new ones. A file
    that was changed belongs to the user: the new items, from ``start`` on, are added.
    ``whole`` says that there is nothing before the items.
    """

    def __init__(
        self, place: Path, start: int, last: dict[str, Any] | None, *, whole: bool
    ) -> None:
        self._place = Path(os.path.realpath(place))
        self._beside = self._place.with_name(f".{self._place.name}.part")
        self._base, self.start = 0, start
        self._ends: list[tuple[int, str]] = []
        if whole:
            return
        if last is not None:
            now = _end_of(self._place)
            self._ends = [end for end in map(tuple, last["ends"]) if end == now]
        if last is not None and self._ends:
            self._base, self.start = last["base"], last["start"]
        elif self._place.exists():
            self._base = self._place.stat().st_size

    def open(self, _: Spider) -> IO[bytes]:
        """Open the file beside the place, for writing."""
        make_directory(self._place.parent)
        self._beside.unlink(missing_ok=True)
        file = self._beside.open("xb")
        if self._place.exists():
            shutil.copymode(self._place, self._beside)
            with self._place.open("rb") as before:
                left = self._base
                while data := before.read(min(left, 1 << 18)):
                    left -= file.write(data)
        return file

    def prepare(self, file: IO[bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Sync the file; return what is to be known before :meth:`store`, and after."""
        if not file.closed:  # by a plugin, as Scrapy's documentation has it
            file.close()
        with self._beside.open("rb") as written:
            sync(written.fileno())
        end = _end_of(self._beside)
        known = {"base": self._base, "start": self.start}
        return {**known, "ends": [*self._ends, end]}, {**known, "ends": [end]}

    def store(self, _: IO[bytes]) -> None:
        """Move the file to its place."""
        self._beside.replace(self._place)
        sync_directory(self._place.parent)


def _end_of(place: Path) -> tuple[int, str]:
    """Return the size of a file, and the digest of its end; of no file, -1."""
    if not place.is_file():
        return -1, ""
    size = place.stat().st_size
    tail = read_bytes(place, max(0, size - TAIL_BYTES), size)
    return size, mmh3_x64_128_digest(tail).hex()
