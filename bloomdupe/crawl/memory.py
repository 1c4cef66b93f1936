"""Memory: detects that the process has run out of memory.

A kill by the kernel needs no detection. Under a limit (``ulimit -v``) Python raises
``MemoryError`` at any place instead. If a callback, a pipeline or a signal handler
raises it, Scrapy logs it and goes on: the request would count as done.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemoryWatch"]


class MemoryWatch(logging.Handler):
    """Calls ``tell`` when a log record was caused by a ``MemoryError``."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell

    def begin(self) -> None:
        """Watch the log of the whole process."""
        logging.getLogger().addHandler(self)

    def end(self) -> None:
        """Stop watching."""
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a record; called by logging."""
        if record.exc_info and isinstance(record.exc_info[1], MemoryError):
            self._tell()
