"""The errors of bloomdupe, and their remedies.

Every error that bloomdupe raises on purpose derives from :class:`BloomDupeError`.
Messages name the problem, the file or setting, and the remedy.
"""

from __future__ import annotations

LONGEST_SHOWN = 200
"""Characters of a value in a message."""


class BloomDupeError(Exception):
    """Root of all errors of this package."""


class SettingError(BloomDupeError, ValueError):
    """A setting or parameter has a value that cannot be used.

    ``parameter`` names the parameter of a filter, if the error is about one.
    """

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter

    @classmethod
    def of(cls, name: str, value: object, expected: str) -> SettingError:
        """Return the error of a value, in one line."""
        return cls(f"{name} = {shown(value)}: expected {expected}")


def shown(value: object) -> str:
    """Return how a message shows a value, shortened."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # of a number of thousands of digits, say
        text = "a value that is too large to be shown"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


class ExtraMissingError(BloomDupeError, ImportError):
    """An optional package is not installed."""


class KeyTypeError(BloomDupeError, TypeError):
    """A key is neither ``bytes`` nor ``str``."""


class IncompatibleFilterError(BloomDupeError, ValueError):
    """Two filters that differ in key or geometry cannot be combined."""


class StoreError(BloomDupeError, OSError):
    """A store cannot be created, opened, read or written."""


class StoreFullError(StoreError):
    """The disk, the quota or the limit on file sizes leaves no room.

    The last checkpoint stands. When there is room again, the next checkpoint may
    succeed.
    """


class StoreIOError(StoreError):
    """The disk failed, or the data file is gone; the store must be opened anew.

    The last checkpoint stands.
    """


class StoreLockedError(StoreError):
    """Another process owns the store."""


class NotOwnerError(StoreError):
    """Another worker has a partition now, or Redis has gone back to older data.

    What this worker has in memory does not follow from the last commit any more.
    """


class StoreUnreachableError(StoreError):
    """The server that keeps the store does not answer, or gives a wrong answer.

    Each operation in progress has happened completely or not at all. The same object
    works again as soon as the server does.
    """


class StoreAccessError(StoreError):
    """The server that keeps the store refuses access: password, user or permission."""


class StoreMismatchError(StoreError, ValueError):
    """The store was made with other parameters, or for another job.

    ``parameter`` names the parameter that differs, if the error is about a parameter.
    """

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class StoreDamagedError(StoreError):
    """The store's content is damaged: it differs from the written records."""


class UnserializableError(BloomDupeError, ValueError):
    """A request cannot be stored or restored, or asks for an invalid time."""


class EngineError(BloomDupeError, RuntimeError):
    """A private name of Scrapy that bloomdupe uses is missing."""


class CheckpointRefusedError(BloomDupeError, RuntimeError):
    """A receiver of :data:`bloomdupe.signals.checkpoint` failed."""


class FeedError(BloomDupeError, OSError):
    """A feed's file cannot be written or continued."""


class FeedChangedError(FeedError):
    """A feed's file was changed since the crawl wrote it."""
