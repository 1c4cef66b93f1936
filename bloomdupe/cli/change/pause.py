"""``pause`` and ``resume``: a slot gets no requests for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from bloomdupe.cli.change.rules_verb import RulesVerb
from bloomdupe.cli.change.selection_arguments import warn_if_unknown

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.job_contract import Ruled


class Pause(RulesVerb):
    """Pauses a slot."""

    name = "pause"
    help = "let a slot rest until it is resumed"
    description = (
        "Give a slot (host) no requests, now and in all later runs, until `resume`."
        " Requests in progress go on, and links to the slot are accepted. A crawl does"
        " not end while only requests of paused slots are pending. A running crawl"
        " obeys at its next checkpoint. `info` shows the paused slots."
    )
    example = "pause crawls/site --slot slow.example.com"
    needs = "directory"
    undo: ClassVar[bool] = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the slot."""
        parser.add_argument(
            "--slot",
            required=True,
            metavar="SLOT",
            help="a host, unless the project names others",
        )

    def change(self, options: Namespace) -> Callable[[Rules], Rules]:
        """Pause the slot, or resume it."""
        slot = options.slot
        if self.undo:
            return lambda there: there.resuming(slot)
        return lambda there: there.pausing([slot])

    def run(self, options: Namespace) -> Ruled:
        """Make the change; a slot may be paused before the job has it."""
        ruled = super().run(options)
        warn_if_unknown(options.job, options.slot)
        return ruled

    def lines(self, rules: Rules) -> Iterator[str]:
        """Yield the paused slots."""
        if not rules.paused:
            yield "Nothing is paused."
        yield from (f"paused: slot {slot}" for slot in sorted(rules.paused))


class Resume(Pause):
    """Lets a paused slot go on."""

    name = "resume"
    help = "let a paused slot go on"
    description = (
        "Give a paused slot (host) requests again. A running crawl obeys at its next"
        " checkpoint."
    )
    example = "resume crawls/site --slot slow.example.com"
    undo: ClassVar[bool] = True
