"""Selection: selects requests by slot and by pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bloomdupe.errors import SettingError

__all__ = ["Selection"]


@dataclass(frozen=True)
class Selection:
    """Selects the requests of a slot with URLs that match a pattern. None: any."""

    slot: str | None = None
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, slot: str | None, pattern: str | None) -> Selection:
        """Read a user's options; raises :class:`SettingError` if they are bad."""
        try:
            return cls(slot, None if pattern is None else re.compile(pattern))
        except (re.error, OverflowError, RecursionError) as error:
            raise SettingError(
                f"--pattern {pattern!r} is not a regular expression: {error}"
            ) from error

    def has(self, slot: str, url: str) -> bool:
        """Whether a request is selected."""
        return self.slot in (None, slot) and (
            self.pattern is None or self.pattern.search(url) is not None
        )
