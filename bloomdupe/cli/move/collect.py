"""``collect``: write the output of workers that share a crawl into files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.output import warn
from bloomdupe.cli.progress import bytes_of
from bloomdupe.cli.table import table
from bloomdupe.cli.verb import INTERRUPTED, Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from bloomdupe.moving.collecting import Collected

__all__ = ["Collect"]

PAUSE = 1.0
"""Seconds between two reads from Redis."""


class Found(NamedTuple):
    """The directory, and the result of collecting."""

    directory: str
    collected: Collected
    interrupted: bool


class Collect(Verb[Found]):
    """Writes the output in Redis into files, each line once."""

    name = "collect"
    help = "the output of workers that share a crawl on Redis, into files"
    description = (
        "Write what the workers of a crawl have put out from Redis into files of"
        " DIRECTORY, one for each feed, named by the last part of the feed's URI. Each"
        " line comes once: run it as often as you like, while the crawl is running or"
        " after it; whatever ends it, kill -9 or a power cut, run it again, and it goes"
        " on where it was. How far it is stands in DIRECTORY/.collected.json. A file"
        " that somebody else has changed is refused."
    )
    example = "collect redis://localhost:6379/0#site output --follow --delete"
    needs = "url"

    def add_arguments(
        self,
        parser: argparse.ArgumentParser,
        jobdir: str | None,  # noqa: ARG002 - a URL names the crawl
    ) -> None:
        """Add the crawl, the directory, and the options."""
        parser.add_argument(
            "store", metavar="URL", help="of the crawl: redis://host:6379/0#name"
        )
        parser.add_argument(
            "directory", metavar="DIRECTORY", help="of the files; made if need be"
        )
        parser.add_argument(
            "--follow",
            action="store_true",
            help=(
                "go on until the crawl has ended, with a look every second, and wait"
                " for a Redis that does not answer; Ctrl-C ends it, too"
            ),
        )
        parser.add_argument(
            "--delete",
            action="store_true",
            help=(
                "delete from Redis what is safe in the files, so that its memory is"
                " freed; then only this directory has it"
            ),
        )
        parser.add_argument(
            "--rest",
            action="store_true",
            help=(
                "let a new directory begin with what Redis still has, though other"
                " lines were deleted after they were collected elsewhere"
            ),
        )

    def run(self, options: argparse.Namespace) -> Found:
        """Collect."""
        from bloomdupe.moving.collecting import Collecting, Patience

        patience = Patience(PAUSE, warn) if options.follow else None
        interrupted = False
        with (
            bytes_of(None) as progress,
            Collecting.open(
                options.job.url,
                Path(options.directory),
                delete=options.delete,
                rest=options.rest,
                patience=patience,
                progress=progress,
            ) as collecting,
        ):
            try:
                if patience is None:
                    collecting.once()
                else:
                    collecting.follow(patience)
            except KeyboardInterrupt:
                # Leaving the block cuts off a half-written batch.
                interrupted = True
        return Found(options.directory, collecting.result, interrupted)

    def text(self, result: Found) -> Iterable[str]:
        """Return the lines that each file has, and whether more are to come."""
        collected = result.collected
        if collected.files:
            yield from table(
                (
                    str(Path(result.directory) / name),
                    f"{file.added:,} lines added, {file.bytes:,} bytes now",
                )
                for name, file in collected.files.items()
            )
        if collected.deleted:
            yield f"deleted from Redis: {collected.deleted:,} entries"
        if result.interrupted:
            yield "Interrupted; the same command goes on."
        elif not collected.finished:
            yield "The crawl has not ended: the same command collects what is to come."

    def json(self, result: Found) -> dict[str, Any]:
        """Return the same."""
        collected = result.collected
        return {
            "directory": result.directory,
            "files": {name: f._asdict() for name, f in collected.files.items()},
            "deleted": collected.deleted,
            "finished": collected.finished,
            "interrupted": result.interrupted,
        }

    def status(self, result: Found) -> int:
        """Return the status of an interruption, if there was an interruption."""
        return INTERRUPTED if result.interrupted else 0
