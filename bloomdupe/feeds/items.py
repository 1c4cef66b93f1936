"""Items: the items for an exporter that cannot be interrupted and runs at the end."""

from __future__ import annotations

from struct import Struct
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Items"]

_HEAD = Struct("<I")


class Items:
    """Items as they were scraped, one after the other; used instead of a Format.

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
