"""The argument that names a job or a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.jobs import ENGINES

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from bloomdupe.cli.verb import Verb

__all__ = ["add_store"]

DIRECTORY = {
    "bash": "_shtab_compgen_dirs",
    "fish": "(__fish_complete_directories)",
    "tcsh": "d",
    "zsh": "_files -/",
}
"""``shtab.DIRECTORY``: lets a shell complete a path; shtab need not be installed."""


def add_store(
    parser: ArgumentParser,
    jobdir: str | None,
    verb: Verb[Any],
    *,
    required: bool = False,
) -> None:
    """Add the argument; it may be left out if there is a ``jobdir``, unless required.

    The help text names the engines that have the operation that the ``verb`` needs.
    """
    default = None if required else jobdir
    places = [engine.argument for engine in ENGINES if verb.runs_on(engine)]
    argument = parser.add_argument(
        "store",
        nargs="?" if default else None,
        default=default,
        help="; or ".join(places) + (f" (default: {default})" if default else ""),
    )
    argument.complete = DIRECTORY  # type: ignore[attr-defined]
