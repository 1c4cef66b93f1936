"""``top``: a job in the terminal, as it goes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.store_argument import add_store, store_directory
from bloomdupe.cli.verb import Verb
from bloomdupe.errors import SettingError
from bloomdupe.sight.extra import need
from bloomdupe.sight.view import Reader, View

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["Top"]


class Top(Verb[View]):
    """Shows a job until q is pressed, or once where there is no terminal."""

    name = "top"
    help = "a job in the terminal, as it goes"
    description = (
        "Show a job in the terminal, again and again: pages, rate, what waits, the time"
        " to go, failures, filter, disk, and the slots with the most requests. Reads"
        " the last checkpoints: a crawl may be running, and is not disturbed. Keys: q"
        " quits, s sorts the slots in another way. Where there is no terminal, it is"
        " shown once. Needs bloomdupe[top]."
    )
    example = "top crawls/site"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store and the interval."""
        add_store(parser, jobdir)
        parser.add_argument(
            "--interval",
            type=float,
            default=2.0,
            metavar="SECONDS",
            help="seconds between two looks (default: 2)",
        )

    def run(self, options: argparse.Namespace) -> View:
        """Show it as long as it is wanted; return what was read last."""
        if not 0.1 <= options.interval <= 3_600:
            raise SettingError(
                f"--interval {options.interval:g}: expected seconds from 0.1 to 3600"
            )
        reader = Reader(store_directory(options.store))
        view = reader.read()
        if options.json:
            return view
        need("rich", "top", "bloomdupe top")
        if sys.stdout.isatty() and sys.stdin.isatty():
            from rich.console import Console

            from bloomdupe.sight.top import follow

            follow(reader, Console(), options.interval)
        return view

    def text(self, result: View) -> Iterable[str]:
        """Return what a terminal would show, if there was none to show it in."""
        if sys.stdout.isatty() and sys.stdin.isatty():
            return []
        from rich.console import Console

        from bloomdupe.sight.top import SORTS, screen

        console = Console()
        with console.capture() as shown:
            console.print(screen(result, console, SORTS[0]))
        return shown.get().splitlines()[:-1]  # without the keys

    def json(self, result: View) -> dict[str, Any]:
        """Return what was read."""
        return result.as_dict()
