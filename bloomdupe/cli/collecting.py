"""``collect``: write the output of a crawl into its feeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bloomdupe.cli.output import table
from bloomdupe.cli.verb import INTERRUPTED, Answer
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import SettingError
from bloomdupe.filter.opening import is_url
from bloomdupe.moving.collecting import Collecting
from bloomdupe.moving.delivering import deliver
from bloomdupe.store.progress import Progress

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from bloomdupe.moving.collecting import Collected, CollectedFile

PAUSE = 1.0
"""Seconds between two reads from Redis."""


def collect(options: Namespace) -> Answer:
    """Write the output of a crawl into its feeds, each item once."""
    if is_url(options.store):
        if options.directory is None:
            raise SettingError("a crawl on Redis needs a DIRECTORY for the files")
        return _collect(options)
    if options.directory or options.follow or options.delete or options.rest:
        raise SettingError(
            "the feeds of a job in a directory have places of their own: DIRECTORY,"
            " --follow, --delete and --rest are for a crawl on Redis"
        )
    found = deliver(options.job, options.project_settings, options.feed)
    return Answer(
        table(
            (
                one.uri,
                f"{plural(one.items, 'item')}"
                + (" stored" if one.stored else ": not stored"),
            )
            for one in found
        )
        if found
        else ["All items are stored already."],
        {"deliveries": [one._asdict() for one in found]},
        int(not all(one.stored for one in found)),
    )


def _collect(options: Namespace) -> Answer:
    """Write the output in Redis into files."""
    interrupted = False
    progress = Progress("Writing files", None, "MB", scale=10**6)
    with (
        Collecting.open(
            options.job.url,
            Path(options.directory),
            options.project_settings,
            delete=options.delete,
            rest=options.rest,
            named=options.feed,
            progress=progress.passed,
        ) as collecting,
    ):
        try:
            collecting.run(PAUSE if options.follow else None)
        except KeyboardInterrupt:
            # The next call writes to the files what is committed.
            interrupted = True
    found = collecting.result
    record = {
        "directory": options.directory,
        "files": {name: file._asdict() for name, file in found.files.items()},
        "deleted": found.deleted,
        "finished": found.finished,
        "failed": found.failed,
        "interrupted": interrupted,
    }
    status = INTERRUPTED if interrupted else int(found.failed)
    return Answer(_lines(found, interrupted=interrupted), record, status)


def _lines(collected: Collected, *, interrupted: bool) -> Iterator[str]:
    """Yield the lines that each file has, and whether more are to come."""
    if collected.files:
        yield from table(
            (
                file.place,
                f"{plural(file.added, 'item')} added, {_state(file, collected)}",
            )
            for file in collected.files.values()
        )
    if collected.deleted:
        yield f"deleted from Redis: {plural(collected.deleted, 'entry', 'entries')}"
    if interrupted:
        yield "Interrupted; the same command goes on."
    elif not collected.finished:
        yield "The crawl has not ended: the same command collects the rest."


def _state(file: CollectedFile, collected: Collected) -> str:
    if not file.later:
        return f"{file.bytes:,} bytes now"
    if collected.undelivered:
        return "not all delivered: the same command tries again"
    if collected.finished:
        return "delivered"
    return "kept here until the crawl has ended"
