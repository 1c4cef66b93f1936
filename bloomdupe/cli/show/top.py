"""``top``: a running job in the terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.verb import Verb
from bloomdupe.errors import SettingError
from bloomdupe.monitoring.extra import need

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from bloomdupe.jobs.job_contract import Job
    from bloomdupe.jobs.view import Reader, View


class Top(Verb["View"]):
    """Shows a job until q is pressed, or once where there is no terminal."""

    name = "top"
    help = "show a job in the terminal, refreshed"
    description = (
        "Show a job in the terminal, refreshed: pages, rate, pending requests, the time"
        " to go, failed requests, filter, disk, and the slots with the most requests."
        " Reads the last checkpoints: a crawl may be running, and is not disturbed."
        " Keys: q quits, s sorts the slots in another way. Without a terminal, the job"
        " is shown once. Of a crawl that workers share on Redis: pages, rate, pending"
        " requests, the workers and their rates, and the slots. Needs bloomdupe[top]."
    )
    example = "top crawls/site"
    needs = "reader"
    store_required = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the interval."""
        parser.add_argument(
            "--interval",
            type=float,
            default=2.0,
            metavar="SECONDS",
            help="seconds between two reads (default: 2)",
        )

    def run(self, options: Namespace) -> View:
        """Show the job until q is pressed; return the last view."""
        if not 0.1 <= options.interval <= 3_600:
            raise SettingError(
                f"--interval {options.interval:g}: expected seconds from 0.1 to 3600"
            )
        job: Job = options.job
        with job.reader() as reader:
            view = reader.read()
            if not options.json:
                need("rich", "top", "bloomdupe top")
                if _in_terminal():
                    return _follow(reader, options.interval)
            if view.job.workers is not None:  # their rates need a second read
                time.sleep(options.interval)
                view = reader.read()
            return view

    def text(self, result: View) -> Iterable[str]:
        """Return the screen as lines if there is no terminal."""
        if _in_terminal():
            return []
        from rich.console import Console

        from bloomdupe.monitoring.top import SORTS, screen

        console = Console(force_terminal=False)
        with console.capture() as captured:
            console.print(screen(result, console, SORTS[0]))
        return captured.get().splitlines()[:-1]  # without the keys

    def json(self, result: View) -> dict[str, Any]:
        """Return the last view."""
        return result.as_dict()


def _follow(reader: Reader, interval: float) -> View:
    from rich.console import Console

    from bloomdupe.monitoring.top import follow

    return follow(reader, Console(), interval)


def _in_terminal() -> bool:
    """Whether there is a terminal with a screen that can be refreshed."""
    return os.environ.get("TERM") != "dumb" and all(
        file is not None and file.isatty() for file in (sys.stdout, sys.stdin)
    )
