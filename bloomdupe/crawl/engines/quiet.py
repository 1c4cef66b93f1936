"""Quiet: lets a checkpoint wait for the moment in which no callback is at work."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 0.1
"""Seconds for which a checkpoint waits."""
GLANCE = 0.002
"""Seconds until it looks again."""
SKIPPED = 20
"""Checkpoints that do not wait after one has waited in vain."""


class Quiet:
    """Finds the moment of a checkpoint.

    What callbacks remember in the spider belongs to no page. In the midst of a callback
    it has half of the callback's changes; after a kill the page would run again, and
    drop its items because ``self.seen`` knows them. So callbacks that have not begun
    are held until those that have are through, with their pipelines.

    ``busy`` tells whether any has begun; ``matters`` whether the spider remembers
    anything at all.
    """

    def __init__(self, busy: Callable[[], bool], matters: Callable[[], bool]) -> None:
        self._busy = busy
        self._matters = matters
        self._since: float | None = None
        self._skips = 0
        self.holds = False
        """Whether callbacks that have not begun must wait."""

    def waits(self) -> bool:
        """Whether the checkpoint that is due has to wait; asked until it has not."""
        self.holds = self._busy() and self._is_worth_it()
        if not self.holds:
            self._since = None
        return self.holds

    def _is_worth_it(self) -> bool:
        if self._since is not None:
            if monotonic() - self._since < LONGEST:
                return True
            self._skips = SKIPPED
            return False
        if self._skips:
            self._skips -= 1
            return False
        if self._matters():
            self._since = monotonic()
        return self._since is not None

    def end(self) -> None:
        """Let all callbacks go on: the checkpoint comes now."""
        self.holds, self._since = False, None
