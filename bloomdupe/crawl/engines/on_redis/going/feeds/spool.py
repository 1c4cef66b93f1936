"""Spool: the files of feeds that are not delivered yet, and items in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import FeedError
from bloomdupe.printable import printable
from bloomdupe.store.descriptor import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO


@dataclass(frozen=True)
class Spool:
    """The directory of a job for feeds that are not delivered yet; it is private."""

    directory: Path
    dump: Callable[[object], bytes]
    """Returns an item as bytes, for an exporter that cannot be interrupted."""
    load: Callable[[bytes], object]
    """Returns the item again."""

    def place(self, name: str) -> Path:
        """Return the path of a file; raises the errors of :func:`bare`."""
        return self.directory / bare(name)

    def open(self, name: str) -> IO[bytes]:
        """Open a file to read it, unless it is a link."""
        return open(open_regular(self.place(name)), "rb")  # noqa: PTH123


def spool_of(store: Path) -> Path:
    """Return the spool's directory for a store."""
    return store.with_name(f"{store.name}.feeds")


def bare(name: object) -> str:
    """Return a stored name of a file in the spool, if it is a bare name.

    Raises :class:`~bloomdupe.errors.FeedError`, so no name leads out of the spool.
    """
    if not isinstance(name, str) or name in {"", ".."} or name != Path(name).name:
        raise FeedError(
            f"the store names {printable(str(name))!r} as a file of its spool, which is"
            " no name of a file: the store is damaged, or comes from a stranger"
        )
    return name


def stored(file: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the record of a file for the store.

    A file in the spool has only its name there, and ``spooled``, because a job may be
    moved. Any other path is as it was given, for the same reason.
    """
    file = {name: value for name, value in file.items() if name != "place"}
    path = Path(file["path"])
    if path.parent != directory:
        return file
    return {**file, "path": path.name, "spooled": True}


def placed(file: dict[str, Any], directory: Path, here: Path) -> dict[str, Any]:
    """Return the record of a file with its ``place``, an absolute path.

    A relative path begins ``here``. Raises the errors of :func:`bare`.
    """
    if file.get("spooled"):
        file = {**file, "path": str(directory / bare(file["path"]))}
    return {**file, "place": str(here / file["path"])}


_HEAD = Struct("<I")


class Items:
    """Items as they were scraped, one after the other; used instead of a OldFormat.

    Each item is the bytes that ``dump`` returns for it, after its length in four bytes.
    """

    head = separator = closing = b""
    header: str | None = None
    fields: Any = None

    def __init__(self, dump: Callable[[object], bytes]) -> None:
        self._dump = dump

    def encode(self, item: object) -> bytes:
        """Return an item as bytes; raises the exceptions of ``dump``."""
        data = self._dump(item)
        return _HEAD.pack(len(data)) + data

    def resume(self, header: str | None, fields: object) -> None:
        """Do nothing: an earlier run has fixed no columns."""

    def close(self) -> None:
        """Do nothing: no exporter is open."""

    @staticmethod
    def read(
        file: IO[bytes], size: int, load: Callable[[bytes], object]
    ) -> Iterator[object]:
        """Yield the items in the first ``size`` bytes of a file."""
        while file.tell() < size:
            (length,) = _HEAD.unpack(file.read(_HEAD.size))
            yield load(file.read(length))
