"""What can go wrong, and what to do about it.

Every error that bloomdupe raises on purpose derives from :class:`BloomDupeError`.
Messages say what is wrong, where (file or setting), and what helps.
"""

from __future__ import annotations

__all__ = [
    "BloomDupeError",
    "CheckpointRefusedError",
    "EngineError",
    "ExtraMissingError",
    "FeedChangedError",
    "FeedError",
    "FilterFullError",
    "IncompatibleFilterError",
    "InterruptedOpeningError",
    "KeyTypeError",
    "RequestTimeError",
    "SettingError",
    "StoreAccessError",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "StoreIOError",
    "StoreLockedError",
    "StoreMismatchError",
    "StoreUnreachableError",
    "UnserializableError",
]


class BloomDupeError(Exception):
    """Root of all errors of this package."""


class SettingError(BloomDupeError, ValueError):
    """A setting or parameter has a value that cannot be used."""


class ExtraMissingError(BloomDupeError, ImportError):
    """A package is not installed that only some people need."""


class KeyTypeError(BloomDupeError, TypeError):
    """A key is neither ``bytes`` nor ``str``."""


class FilterFullError(BloomDupeError):
    """The capacity is reached and ``growth="error"`` forbids another layer."""


class IncompatibleFilterError(BloomDupeError, ValueError):
    """Two filters that differ in key or geometry cannot be combined."""


class InterruptedOpeningError(BloomDupeError):
    """Ctrl-C came while a crawl was opened."""


class StoreError(BloomDupeError, OSError):
    """A store cannot be created, opened, read or written."""


class StoreFullError(StoreError):
    """The disk, the quota or the limit on file sizes leaves no room.

    The last checkpoint stands. With room again, the next one may succeed.
    """


class StoreIOError(StoreError):
    """The disk failed, or the data file is gone; the store must be opened anew.

    The last checkpoint stands.
    """


class StoreLockedError(StoreError):
    """Another process owns the store."""


class StoreUnreachableError(StoreError):
    """The server that keeps the store does not answer, or not as it should.

    What was under way has happened wholly or not at all. The same object works again
    as soon as the server does.
    """


class StoreAccessError(StoreError):
    """The server that keeps the store refuses us: password, user or permission."""


class StoreMismatchError(StoreError, ValueError):
    """The store was made with other parameters, or for another job.

    ``parameter`` names the one that differs, if it is one.
    """

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class StoreDamagedError(StoreError):
    """The store's content is not what was written."""


class UnserializableError(BloomDupeError, ValueError):
    """A request cannot be stored, or a stored one cannot be restored."""


class RequestTimeError(BloomDupeError, ValueError):
    """A request asks for a point in time that is none."""


class EngineError(BloomDupeError, RuntimeError):
    """Scrapy's engine is not as this version of bloomdupe knows it."""


class CheckpointRefusedError(BloomDupeError, RuntimeError):
    """A receiver of :data:`bloomdupe.signals.checkpoint` failed."""


class FeedError(BloomDupeError, OSError):
    """A feed's file cannot be written, or not be continued."""


class FeedChangedError(FeedError):
    """A feed's file is not as the crawl has left it."""
