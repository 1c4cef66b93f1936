"""Verb: the base class of the verbs of the command line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from bloomdupe.jobs import ENGINES

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator

    from bloomdupe.jobs.job_contract import Job

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of SIGINT."""

DIRECTORY = {
    "bash": "_shtab_compgen_dirs",
    "fish": "(__fish_complete_directories)",
    "tcsh": "d",
    "zsh": "_files -/",
}
"""``shtab.DIRECTORY``: lets a shell complete a path; shtab need not be installed."""

Result = TypeVar("Result")


class Verb(ABC, Generic[Result]):
    """A verb: its arguments, its action, and the output of its result.

    A verb that changes a job makes all its changes before it prints, so a reader that
    stops early stops no change. A verb that only reads may print while it reads.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    """Half a sentence for the list of verbs."""
    description: ClassVar[str]
    example: ClassVar[str]
    """The arguments of an example call, without the name of the program."""
    needs: ClassVar[str | None] = None
    """The operation of :class:`~bloomdupe.jobs.job_contract.Job` that it needs of its
    argument ``store``; None: it has no such argument.
    """
    store_required: ClassVar[bool] = True
    """Whether the store must be named, even if the project has a JOBDIR."""
    json_indent: ClassVar[int | None] = 2
    """Spaces; None: JSON on one line."""

    def runs_on(self, engine: type[Job]) -> bool:
        """Whether an engine has the operation that this verb needs."""
        return self.needs is not None and engine.has(self.needs)

    def add_store(self, parser: ArgumentParser, jobdir: str | None) -> None:
        """Add the argument ``store``, which names a job or a store, if it is needed.

        It may be left out if there is a ``jobdir``, unless it is required. The help
        text names the engines that have the operation that the verb needs.
        """
        if self.needs is None:
            return
        default = None if self.store_required else jobdir
        places = [engine.argument for engine in ENGINES if self.runs_on(engine)]
        argument = parser.add_argument(
            "store",
            nargs="?" if default else None,
            default=default,
            help="; or ".join(places) + (f" (default: {default})" if default else ""),
        )
        argument.complete = DIRECTORY  # type: ignore[attr-defined]

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add all arguments but ``store``, which comes before them, and ``--json``."""

    @abstractmethod
    def run(self, options: Namespace) -> Result:
        """Run the verb; ``options.job`` is the job that ``options.store`` names.

        Raises :class:`~bloomdupe.errors.BloomDupeError`.
        """

    @abstractmethod
    def text(self, result: Result) -> Iterable[str]:
        """Return the lines to print."""

    def json(self, result: Result) -> dict[str, Any] | Iterator[dict[str, Any]]:
        """Return the result as JSON, by default the fields of a named tuple.

        An iterator gives an object for each line.
        """
        return cast("Any", result)._asdict()  # type: ignore[no-any-return]

    def status(self, result: Result) -> int:  # noqa: ARG002
        """Return the exit status."""
        return 0
