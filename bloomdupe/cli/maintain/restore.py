"""``restore``: put a backup in the place of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.progress_bar import bytes_read
from bloomdupe.cli.verb import Verb
from bloomdupe.jobs import open_job
from bloomdupe.rescue.restore import restore

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable
    from pathlib import Path


class Restored(NamedTuple):
    """The backup, the place of its copy, and the new place of the previous store."""

    backup: Path
    target: Path
    aside: Path | None


class Restore(Verb[Restored]):
    """Checks a backup and puts a copy of it in the place of a store."""

    name = "restore"
    help = "put a backup in the place of a store"
    description = (
        "Check a backup and put a copy of it in the place of a store. A store that"
        " exists there is moved aside with --replace, and never deleted. A path that"
        " ends in bloomdupe, or that holds a store's files, is the store itself. Any"
        " other path is a JOBDIR, and the backup becomes its folder bloomdupe."
    )
    example = "restore backup crawls/site --replace"
    needs = "new_directory"
    store_required = False
    json_indent = None

    def add_store(self, parser: ArgumentParser, jobdir: str | None) -> None:
        """Add the backup, and then the store."""
        parser.add_argument("backup", help="a copy that `bloomdupe backup` has made")
        super().add_store(parser, jobdir)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add ``--replace``."""
        parser.add_argument(
            "--replace", action="store_true", help="move the existing store aside"
        )

    def run(self, options: Namespace) -> Restored:
        """Put it in place."""
        backup = open_job(options.backup).directory
        target = options.job.new_directory
        with bytes_read(backup) as read:
            aside = restore(backup, target, replace=options.replace, progress=read)
        return Restored(backup, target, aside)

    def text(self, result: Restored) -> Iterable[str]:
        """Return the place of the copy, and the new place of the previous store."""
        yield f"{result.target}: restored from {result.backup}"
        if result.aside is not None:
            yield f"The previous store is now {result.aside}"

    def json(self, result: Restored) -> dict[str, Any]:
        """Return both places."""
        aside = None if result.aside is None else str(result.aside)
        return {"store": str(result.target), "moved_aside": aside}
