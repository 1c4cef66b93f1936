"""Target: a local file that gets a delivery as a whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bloomdupe.feeds.file import digest, ends_at, tail_of
from bloomdupe.store.files import make_directory, sync_directory
from bloomdupe.store.platform import sync

if TYPE_CHECKING:
    from scrapy import Spider


class Target:
    """Replaces Scrapy's storage for local files.

    The new content is written to another file beside the place, which is then renamed.
    It begins with the first ``base`` bytes of the present content.
    """

    def __init__(self, place: Path, base: int) -> None:
        self._place = Path(os.path.realpath(place))
        self._beside = self._place.with_name(f".{self._place.name}.part")
        self._base = base

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

    def prepare(self, file: IO[bytes]) -> dict[str, Any]:
        """Sync the file, and return the state that it will have in its place."""
        if not file.closed:  # by a plugin, as Scrapy's documentation has it
            file.close()
        with self._beside.open("rb") as written:
            sync(written.fileno())
        size = self._beside.stat().st_size
        tail = digest(tail_of(self._beside, size))
        return {"base": self._base, "size": size, "tail": tail}

    def store(self, _: IO[bytes]) -> None:
        """Move the file to its place."""
        self._beside.replace(self._place)
        sync_directory(self._place.parent)


def is_there(place: Path, state: dict[str, Any] | None) -> bool:
    """Whether a file has the state that :meth:`Target.prepare` has returned."""
    return state is not None and ends_at(place, state["size"], state["tail"])
