"""Verb: what each verb of the command line is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

__all__ = ["INTERRUPTED", "Result", "Verb"]

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of SIGINT."""

Result = TypeVar("Result")


class Verb(ABC, Generic[Result]):
    """A verb: its arguments, what it does, and how it says what it has found.

    One that changes anything does all of it before it says anything, so whoever stops
    reading stops nothing. One that reads may do so while it is read itself.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    """Half a sentence for the list of verbs."""
    description: ClassVar[str]
    example: ClassVar[str]
    """What stands behind the name of the program in a call of it."""
    json_indent: ClassVar[int | None] = 2
    """Spaces; None: JSON on one line."""

    @abstractmethod
    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add all but ``--json``; ``jobdir`` is the store to take if none is named."""

    @abstractmethod
    def run(self, options: argparse.Namespace) -> Result:
        """Do it. Raises :class:`~bloomdupe.errors.BloomDupeError`."""

    @abstractmethod
    def text(self, result: Result) -> Iterable[str]:
        """Return the lines to print."""

    @abstractmethod
    def json(self, result: Result) -> dict[str, Any] | Iterator[dict[str, Any]]:
        """Return the same for machines; what is listed, one object for each line."""

    def status(self, result: Result) -> int:  # noqa: ARG002
        """Return the exit status."""
        return 0
