"""``pause`` and ``resume``: a slot gets no requests for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from bloomdupe.cli.change.added_counts import by_the_crawl
from bloomdupe.cli.output import warn
from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.store_argument import add_store
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.changes.change import SlotPause

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["Pause", "Resume"]


class PausedNow(NamedTuple):
    """The slots that are paused now, and the pending requests of the named slot."""

    paused: list[str]
    pending: int
    taken_up: bool


class Pause(Verb[PausedNow]):
    """Pauses a slot."""

    name = "pause"
    help = "let a slot rest until it is resumed"
    description = (
        "Give a slot (host) no requests, now and in all later runs, until `resume`."
        " Requests in progress go on, and links to the slot are accepted. A crawl does"
        " not end while only requests of paused slots are pending. A running crawl"
        " makes the change at its next checkpoint. `info` shows the paused slots."
    )
    example = "pause crawls/site --slot slow.example.com"
    needs = "directory"
    undo: ClassVar[bool] = False

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, and the slot."""
        add_store(parser, jobdir, self, required=True)
        parser.add_argument(
            "--slot",
            required=True,
            metavar="SLOT",
            help="a host, unless the project names others",
        )

    def run(self, options: argparse.Namespace) -> PausedNow:
        """Pause the slot, or let it go on."""
        from bloomdupe.jobs.on_disk.changing import Changing

        path = options.job.directory
        with Changing(
            path, options.project_settings, warn, counted, by_url=False
        ) as job:
            answer, taken_up = job.make(SlotPause(options.slot, self.undo))
        return PausedNow(answer["paused"], answer["pending"], taken_up)

    def text(self, result: PausedNow) -> Iterable[str]:
        """Return the paused slots."""
        begin = by_the_crawl(taken_up=result.taken_up)
        yield f"{begin}{result.pending:,} pending in this slot"
        if not result.paused:
            yield "Nothing is paused."
        yield from (f"paused: slot {slot}" for slot in result.paused)

    def json(self, result: PausedNow) -> dict[str, Any]:
        """Return all of it."""
        return result._asdict()


class Resume(Pause):
    """Lets a paused slot go on."""

    name = "resume"
    help = "let a paused slot go on"
    description = (
        "Give a paused slot (host) requests again. A running crawl makes the change at"
        " its next checkpoint."
    )
    example = "resume crawls/site --slot slow.example.com"
    undo: ClassVar[bool] = True
