"""``collect``: write the output of workers that share a crawl into files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.output import warn
from bloomdupe.cli.progress_bar import bytes_of
from bloomdupe.cli.table import table
from bloomdupe.cli.verb import INTERRUPTED, Verb
from bloomdupe.crawl.progress.pace import plural

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from bloomdupe.moving.collecting import Collected, CollectedFile

PAUSE = 1.0
"""Seconds between two reads from Redis."""


class CollectedOutput(NamedTuple):
    """The directory, and the result of collecting."""

    directory: str
    collected: Collected
    interrupted: bool


class Collect(Verb[CollectedOutput]):
    """Writes the output in Redis into files, each line once."""

    name = "collect"
    help = "write the output of workers that share a crawl into files"
    description = (
        "Write the output of the workers of a crawl from Redis into its feeds. Local"
        " files are in DIRECTORY, named by the last part of the feed's URI; other"
        " storages get whole files when the crawl, or the batch, is complete. Each item"
        " comes once: run it as often as you like, while the crawl is running or after"
        " it. After any end, kill -9 and power cuts included, run it again, and it goes"
        " on at its position, which DIRECTORY/.collected records. A file that another"
        " program has changed is refused. Exporters, storages and passwords of the"
        " project are found in the folder of the project."
    )
    example = "collect redis://localhost:6379/0#site output --follow --delete"
    needs = "url"

    def add_store(self, parser: ArgumentParser, _: str | None) -> None:
        """Add the URL of the crawl."""
        parser.add_argument(
            "store", metavar="URL", help="of the crawl: redis://host:6379/0#name"
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the directory, and the options."""
        parser.add_argument(
            "directory", metavar="DIRECTORY", help="of the files; made if need be"
        )
        parser.add_argument(
            "--follow",
            action="store_true",
            help=(
                "go on until the crawl has ended, reading every second, and wait for a"
                " Redis that does not answer; Ctrl-C ends it, too"
            ),
        )
        parser.add_argument(
            "--delete",
            action="store_true",
            help=(
                "delete lines from Redis that are safe in the files, to free memory;"
                " then only this directory has them"
            ),
        )
        parser.add_argument(
            "--rest",
            action="store_true",
            help=(
                "let a new directory begin with the lines that Redis still has, though"
                " some lines were deleted after they were collected elsewhere"
            ),
        )

        parser.add_argument(
            "--feed",
            metavar="URI",
            action="append",
            default=[],
            help=(
                "write this feed, too, which FEEDS of the project does not have: only"
                " files are written because Redis names them; may be repeated"
            ),
        )

    def run(self, options: Namespace) -> CollectedOutput:
        """Collect."""
        from bloomdupe.moving.collecting import Collecting, Patience

        patience = Patience(PAUSE, warn) if options.follow else None
        interrupted = False
        with (
            bytes_of(None) as progress,
            Collecting.open(
                options.job.url,
                Path(options.directory),
                options.project_settings,
                delete=options.delete,
                rest=options.rest,
                named=options.feed,
                patience=patience,
                progress=progress,
            ) as collecting,
        ):
            try:
                collecting.run(patience)
            except KeyboardInterrupt:
                # The next call writes to the files what is committed.
                interrupted = True
        return CollectedOutput(options.directory, collecting.result, interrupted)

    def text(self, result: CollectedOutput) -> Iterable[str]:
        """Return the lines that each file has, and whether more are to come."""
        collected = result.collected
        if collected.files:
            yield from table(
                (
                    file.place,
                    f"{plural(file.added, 'line')} added, {_state(file, collected)}",
                )
                for file in collected.files.values()
            )
        if collected.deleted:
            yield f"deleted from Redis: {plural(collected.deleted, 'entry', 'entries')}"
        if result.interrupted:
            yield "Interrupted; the same command goes on."
        elif not collected.finished:
            yield "The crawl has not ended: the same command collects the rest."

    def json(self, result: CollectedOutput) -> dict[str, Any]:
        """Return the same."""
        collected = result.collected
        return {
            "directory": result.directory,
            "files": {name: f._asdict() for name, f in collected.files.items()},
            "deleted": collected.deleted,
            "finished": collected.finished,
            "failed": collected.failed,
            "interrupted": result.interrupted,
        }

    def status(self, result: CollectedOutput) -> int:
        """Return the status of an interruption; or 1 if a delivery has failed."""
        return INTERRUPTED if result.interrupted else int(result.collected.failed)


def _state(file: CollectedFile, collected: Collected) -> str:
    if not file.later:
        return f"{file.bytes:,} bytes now"
    if collected.failed:
        return "not all delivered: the same command tries again"
    if collected.finished:
        return "delivered"
    return "delivered when the batch, or the crawl, is complete"
