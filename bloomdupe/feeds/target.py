"""Target: a local file that is written in one piece, or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bloomdupe.feeds.content import TAIL_BYTES, digest, read_bytes
from bloomdupe.store.files import make_directory, sync_directory
from bloomdupe.store.platform import sync

if TYPE_CHECKING:
    from scrapy import Spider

__all__ = ["Target"]


class Target:
    """Replaces Scrapy's storage for local files.

    The new content is written to another file beside the place, which is then renamed.
    Unless ``overwrite``, it begins with the old content.
    """

    def __init__(self, place: Path, *, overwrite: bool) -> None:
        self._place = Path(os.path.realpath(place))
        self._beside = self._place.with_name(f".{self._place.name}.part")
        self._overwrite = overwrite
        self._file: IO[bytes] | None = None

    def open(self, _: Spider) -> IO[bytes]:
        """Open the file beside the place, for writing."""
        make_directory(self._place.parent)
        self._beside.unlink(missing_ok=True)
        self._file = file = self._beside.open("xb")
        if self._place.exists():
            shutil.copymode(self._place, self._beside)
            if not self._overwrite:
                with self._place.open("rb") as before:
                    shutil.copyfileobj(before, file)
        return file

    def prepare(self) -> dict[str, Any]:
        """Sync the file, and return the state that it will have in its place."""
        assert self._file is not None  # noqa: S101 - it was opened
        if not self._file.closed:  # by a plugin, as Scrapy's documentation has it
            self._file.flush()
        with self._beside.open("rb") as written:
            sync(written.fileno())
        return {"path": str(self._place), **_state(self._beside)}

    def store(self, file: IO[bytes]) -> None:
        """Move the file to its place."""
        file.close()
        self._beside.replace(self._place)
        sync_directory(self._place.parent)

    @staticmethod
    def is_there(state: dict[str, Any]) -> bool:
        """Whether a file has the state that :meth:`prepare` has returned."""
        place = Path(state["path"])
        return place.is_file() and {"path": str(place), **_state(place)} == state


def _state(place: Path) -> dict[str, Any]:
    size = place.stat().st_size
    tail = read_bytes(place, max(0, size - TAIL_BYTES), size)
    return {"size": size, "tail": digest(tail)}
