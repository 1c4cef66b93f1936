"""Verb: a verb of the command line, and its answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of SIGINT."""

DISK = ("a JOBDIR, or the directory of a store",)
BOTH = (*DISK, "the URL of a crawl on Redis")
"""What a verb may be called on, as a user names it."""


class Answer(NamedTuple):
    """The result of a verb.

    A verb that changes a job has made all its changes before it answers, so a reader
    that stops early stops no change. A verb that only reads may read while it prints.
    """

    lines: Iterable[str]
    record: dict[str, Any] | Iterator[dict[str, Any]]
    """The same as JSON; an iterator gives an object for each line."""
    status: int = 0


class Verb(NamedTuple):
    """A verb. Its function is imported when it is called, with all that it needs."""

    name: str
    action: str
    """Module and function; the function takes the parsed options, in which ``job`` is
    the job that ``store`` names. It raises
    :class:`~bloomdupe.errors.BloomDupeError`.
    """
    on: tuple[str, ...]
    """What it may be called on; none: it has no argument ``store``."""
    help: str
    """Half a sentence for the list of verbs."""
    description: str
    example: str
    """The arguments of an example call, without the name of the program."""
    options: tuple[str, ...] = ()
    """Names of all but ``store``, which comes before them, and ``--json``."""
    store_required: bool = True
    """Whether the store must be named, even if the project has a JOBDIR."""

    @property
    def run(self) -> Callable[[Namespace], Answer]:
        """The function."""
        module, _, name = self.action.partition(".")
        found: Callable[[Namespace], Answer] = getattr(
            import_module(f"bloomdupe.cli.{module}"), name
        )
        return found
