"""``top``: a running job in the terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.store_argument import add_store, store_directory
from bloomdupe.cli.verb import Verb
from bloomdupe.errors import SettingError
from bloomdupe.filter.opening import is_url
from bloomdupe.monitoring.extra import need
from bloomdupe.monitoring.view import Reader, View

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from rich.console import Console, RenderableType

    from bloomdupe.monitoring.shared_view import SharedView

__all__ = ["Top"]


class Top(Verb["View | SharedView"]):
    """Shows a job until q is pressed, or once where there is no terminal."""

    name = "top"
    help = "a job in the terminal, as it goes"
    description = (
        "Show a job in the terminal, again and again: pages, rate, what waits, the time"
        " to go, failures, filter, disk, and the slots with the most requests. Reads"
        " the last checkpoints: a crawl may be running, and is not disturbed. Keys: q"
        " quits, s sorts the slots in another way. Where there is no terminal, it is"
        " shown once. Of a crawl that workers share on Redis: pages, rate, what waits,"
        " the workers and how fast each is, and the slots. Needs bloomdupe[top]."
    )
    example = "top crawls/site"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store and the interval."""
        add_store(parser, jobdir, url="a crawl")
        parser.add_argument(
            "--interval",
            type=float,
            default=2.0,
            metavar="SECONDS",
            help="seconds between two looks (default: 2)",
        )

    def run(self, options: argparse.Namespace) -> View | SharedView:
        """Show the job until q is pressed; return the last view."""
        if not 0.1 <= options.interval <= 3_600:
            raise SettingError(
                f"--interval {options.interval:g}: expected seconds from 0.1 to 3600"
            )
        if is_url(options.store):
            return _shared(options)
        reader = Reader(store_directory(options.store))
        view = reader.read()
        if options.json:
            return view
        need("rich", "top", "bloomdupe top")
        if _in_terminal():
            from rich.console import Console

            from bloomdupe.monitoring.top import SORTS, follow, screen

            follow(reader, screen, SORTS, Console(), options.interval)
        return view

    def text(self, result: View | SharedView) -> Iterable[str]:
        """Return the screen as lines if there is no terminal."""
        if _in_terminal():
            return []
        from rich.console import Console

        console = Console(force_terminal=False)
        with console.capture() as captured:
            console.print(_screen(result, console))
        return captured.get().splitlines()[:-1]  # without the keys

    def json(self, result: View | SharedView) -> dict[str, Any]:
        """Return the last view."""
        return result.as_dict()


def _screen(view: View | SharedView, console: Console) -> RenderableType:
    """Return the screen; the screen of a job in a directory does not need Redis."""
    if isinstance(view, View):
        from bloomdupe.monitoring import top

        return top.screen(view, console, top.SORTS[0])
    from bloomdupe.monitoring import shared_top

    return shared_top.screen(view, console, shared_top.SORTS[0])


def _in_terminal() -> bool:
    return all(file is not None and file.isatty() for file in (sys.stdout, sys.stdin))


def _shared(options: argparse.Namespace) -> SharedView:
    """Show a crawl on Redis; without a terminal after two reads, which give a rate."""
    from bloomdupe.monitoring.shared_view import SharedReader

    with SharedReader(options.store) as reader:
        view = reader.read()
        if not options.json:
            need("rich", "top", "bloomdupe top")
            if _in_terminal():
                from rich.console import Console

                from bloomdupe.monitoring.shared_top import SORTS, screen
                from bloomdupe.monitoring.top import follow

                follow(reader, screen, SORTS, Console(), options.interval)
                return view
        time.sleep(options.interval)
        return reader.read()
