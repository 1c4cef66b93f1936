"""Timer: calls a function later, in the event loop of Scrapy."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy.utils.asyncio import call_later

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """Calls a function once, later, in the event loop of Scrapy."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._call: Any = None
        self.due: float | None = None

    def set(self, seconds: float) -> None:
        """Call the function in so many seconds, and drop an earlier appointment."""
        self.cancel()
        self.due = time.monotonic() + seconds
        self._call = call_later(seconds, self._run)

    def cancel(self) -> None:
        """Drop the appointment."""
        if self._call is not None:
            self._call.cancel()
            self._call = self.due = None

    def _run(self) -> None:
        self._call = self.due = None
        self._function()
