"""``repair``: save the readable records of a damaged store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.progress_bar import bytes_read
from bloomdupe.cli.verb import Verb
from bloomdupe.rescue.repair import Repaired, repair

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

Saved = tuple[Path, Path, Repaired]
"""The damaged store, the new store, and the contents of the new store."""


class Repair(Verb[Saved]):
    """Makes a new store from the readable records of a damaged store."""

    name = "repair"
    help = "save the readable records of a damaged store"
    description = (
        "Make a new store of all records that can be read in a damaged store, and list"
        " the losses. The damaged store stays as it is; `bloomdupe restore NEW STORE"
        " --replace` puts the new store in its place."
    )
    example = "repair crawls/site saved"
    needs = "directory"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the new store."""
        parser.add_argument("new", help="directory to create")

    def run(self, options: Namespace) -> Saved:
        """Save it."""
        store, new = options.job.directory, Path(options.new)
        with bytes_read(store, times=2) as read:
            return store, new, repair(store, new, read)

    def text(self, result: Saved) -> Iterable[str]:
        """Return the damage, the losses, the saved records, and the next step."""
        store, new, repaired = result
        yield from (f"damaged: {problem}" for problem in repaired.damaged)
        yield from (f"lost: {loss}" for loss in repaired.lost)
        if not repaired.lost:
            yield "Nothing is lost."
        saved = [f"{count:,} {name}" for name, count in repaired.saved.items() if count]
        yield f"{new}: {', '.join(saved) or 'nothing'}"
        yield (
            f"`bloomdupe restore {new} {store} --replace` puts it in the place of the"
            " old store."
        )

    def json(self, result: Saved) -> dict[str, Any]:
        """Return the damage, the losses and the saved records."""
        return asdict(result[2])
