"""Items: what an exporter that cannot be interrupted is given at the end."""

from __future__ import annotations

from struct import Struct
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Items"]

_HEAD = Struct("<I")


class Items:
    """Items as they were scraped, one after the other; takes the place of a Format.

    Each of them is what ``dump`` returns for it, after its length in four bytes.
    """

    head = separator = closing = b""
    header: str | None = None
    fields: Any = None

    def __init__(self, dump: Callable[[object], bytes]) -> None:
        self._dump = dump

    def encode(self, item: object) -> bytes:
        """Return an item as bytes; raises what ``dump`` raises."""
        data = self._dump(item)
        return _HEAD.pack(len(data)) + data

    def resume(self, header: str | None, fields: object) -> None:
        """There is nothing that an earlier run has fixed."""

    def close(self) -> None:
        """There is nothing to let go."""

    @staticmethod
    def read(
        file: IO[bytes], size: int, load: Callable[[bytes], object]
    ) -> Iterator[object]:
        """Yield the items in the first ``size`` bytes of a file."""
        while file.tell() < size:
            (length,) = _HEAD.unpack(file.read(_HEAD.size))
            yield load(file.read(length))
