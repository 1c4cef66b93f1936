"""Verb: a verb of the command line, and its answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    Argument: TypeAlias = tuple[tuple[str, ...], dict[str, Any]]

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of SIGINT."""

DISK = ("a JOBDIR, or the directory of a store",)
BOTH = (*DISK, "the URL of a crawl on Redis")
"""What a verb may be called on, as a user names it."""

DIRECTORY = {
    "bash": "_shtab_compgen_dirs",
    "fish": "(__fish_complete_directories)",
    "tcsh": "d",
    "zsh": "_files -/",
}
"""``shtab.DIRECTORY``: lets a shell complete a path; shtab need not be installed."""


class Answer(NamedTuple):
    """The result of a verb.

    A verb that changes a job has made all its changes before it answers, so a reader
    that stops early stops no change. A verb that only reads may read while it prints.
    """

    lines: Iterable[str]
    record: dict[str, Any] | Iterator[dict[str, Any]]
    """The same as JSON; an iterator gives an object for each line."""
    status: int = 0


def argument(*names: str, **options: Any) -> Argument:  # noqa: ANN401 - argparse's
    """Return an argument: its names, and other options of ``argparse``."""
    return names, options


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
    arguments: tuple[Argument, ...] = ()
    """All but ``store``, which comes before them, and ``--json``."""
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

    def add_arguments(self, parser: ArgumentParser, jobdir: str | None) -> None:
        """Add all arguments.

        ``store`` may be left out if there is a ``jobdir``, unless it is required.
        """
        if self.on:
            default = None if self.store_required else jobdir
            places = "; or ".join(self.on)
            store = parser.add_argument(
                "store",
                nargs="?" if default else None,
                default=default,
                help=places + (f" (default: {default})" if default else ""),
            )
            store.complete = DIRECTORY  # type: ignore[attr-defined]
        for names, options in self.arguments:
            parser.add_argument(*names, **options)
        parser.add_argument("--json", action="store_true", help="print JSON")
