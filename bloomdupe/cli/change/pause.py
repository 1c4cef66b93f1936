"""``pause`` and ``resume``: a slot gets no requests for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from bloomdupe.cli.change.change_verb import ChangeVerb
from bloomdupe.cli.change.selection_arguments import warn_if_unknown

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from bloomdupe.crawl.changes.change import Change
    from bloomdupe.jobs.job_contract import Made
    from bloomdupe.jobs.project import Project


class Pause(ChangeVerb):
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
    fields = ("paused", "pending")
    undo: ClassVar[bool] = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the slot."""
        parser.add_argument(
            "--slot",
            required=True,
            metavar="SLOT",
            help="a host, unless the project names others",
        )

    def change(self, options: Namespace, _: Callable[[], Project]) -> Change:
        """Name the slot."""
        return {"kind": "pause", "slot": options.slot, "undo": self.undo}

    def run(self, options: Namespace) -> Made:
        """Make the change; a slot may be paused before the job has it."""
        made = super().run(options)
        warn_if_unknown(options.job, options.slot)
        return made

    def lines(self, answer: dict[str, Any]) -> Iterator[str]:
        """Yield the paused slots."""
        yield f"{answer['pending']:,} pending in this slot"
        if not answer["paused"]:
            yield "Nothing is paused."
        yield from (f"paused: slot {slot}" for slot in answer["paused"])


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
