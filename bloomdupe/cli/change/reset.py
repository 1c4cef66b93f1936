"""``reset``: remove a store, so that its job begins anew."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.output import warn
from bloomdupe.cli.verb import Verb
from bloomdupe.errors import SettingError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from bloomdupe.jobs.job_contract import Job, Removal


class Reset(Verb["Removal"]):
    """Removes the store of a job."""

    name = "reset"
    help = "begin a job anew: remove all its data"
    description = (
        "Remove the store of a job, so that the next run begins anew: seen URLs,"
        " pending requests, cookies, spider.state, and counts. Output files stay. The"
        " contents are shown first, and must be confirmed by typing yes, or by --yes."
        " The job must not be running. `backup` makes a copy before. A crawl that"
        " workers share on Redis is named by its URL, redis://host:6379/0#name: all its"
        " keys are removed, output that was not collected included."
    )
    example = "reset crawls/site"
    needs = "removal"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add ``--yes``."""
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def run(self, options: Namespace) -> Removal:
        """Ask, then remove."""
        job: Job = options.job
        with job.removal() as removal:
            if not options.yes:
                _confirm(removal)
            removal.remove()
        return removal

    def text(self, result: Removal) -> Iterable[str]:
        """Return a line about the removed store, and one for each file that stays."""
        yield f"removed: {', '.join(result.places)}: {result.contents}"
        yield from (f"stays: {name}" for name in result.stays)

    def json(self, result: Removal) -> dict[str, Any]:
        """Return the same."""
        places, stays = [*result.places], [*result.stays]
        return {"removed": places, "held": result.contents, "stays": stays}


def _confirm(removal: Removal) -> None:
    names, held = ", ".join(removal.places), removal.contents
    if sys.stdin is None or not sys.stdin.isatty():
        raise SettingError(
            f"this removes {names}: {held}. There is no terminal to confirm it; --yes"
            " does"
        )
    warn(f"This removes {names}: {held}.")
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != "yes":
        raise SettingError("nothing was removed")
