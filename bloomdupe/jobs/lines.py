"""Lines: the text lines of a file or of standard input, robustly read."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from bloomdupe.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 16 << 20
"""Bytes of a line, the body of a request in it included."""
MOST_SHOWN = 20
MOST_SAID = 1_000
"""Characters of a problem's description."""


class Line(NamedTuple):
    """A line that is neither empty nor a comment."""

    where: str
    """Its number, or itself if it came from another place than a file."""
    text: str


@dataclass
class Problems:
    """Lines that could not be used, and why. Keeps the first ``MOST_SHOWN``."""

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, where: str, what: str) -> None:
        """Add a problem."""
        self.count += 1
        if len(self.shown) < MOST_SHOWN:
            what = what if len(what) <= MOST_SAID else f"{what[:MOST_SAID]}..."
            self.shown.append(f"{where}: {what}")

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return {"count": self.count, "first": self.shown}

    def lines(self) -> Iterator[str]:
        """Yield the lines to print."""
        yield from self.shown
        if self.count > len(self.shown):
            yield f"... and {self.count - len(self.shown):,} more"


def read_lines(file: BinaryIO, problems: Problems) -> Iterator[Line]:
    """Yield the lines of a file that are text; other lines become ``problems``.

    Empty lines, and lines that begin with ``#``, are left out. Memory is bounded, also
    if there is no end of line at all.
    """
    for number in count(1):
        raw, where = _read(file), f"line {number:,}"
        if not raw:
            return
        if len(raw) == LONGEST and not raw.endswith(b"\n"):
            raise StoreError(
                f"{where} does not end within {LONGEST:,} bytes: this is no text"
            )
        try:
            text = raw.decode().strip().removeprefix("\ufeff")
        except UnicodeDecodeError:
            problems.add(where, "it is not UTF-8")
            continue
        if text and not text.startswith("#"):
            yield Line(where, text)


def _read(file: BinaryIO) -> bytes:
    try:
        return file.readline(LONGEST)
    except OSError as error:
        name = getattr(file, "name", "the file")
        raise StoreError(f"cannot read {name}: {error.strerror}") from error
