"""``top`` and ``report``: a job in the terminal, and as a page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bloomdupe.cli.output import write
from bloomdupe.cli.verb import Answer
from bloomdupe.errors import BloomDupeError, SettingError
from bloomdupe.jobs.reader import JobReader
from bloomdupe.monitoring.extra import need
from bloomdupe.store.files import write_file

if TYPE_CHECKING:
    from argparse import Namespace

    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.view import View


def top(options: Namespace) -> Answer:
    """Show the job until q is pressed, or once where there is no terminal."""
    if not 0.1 <= options.interval <= 3_600:
        raise SettingError(
            f"--interval {options.interval:g}: expected seconds from 0.1 to 3600"
        )
    job: Job = options.job
    reader = JobReader(job)
    view = reader.read()
    if not options.json:
        need("rich", "top", "bloomdupe top")
        if _in_terminal():
            from rich.console import Console

            from bloomdupe.monitoring.top import follow

            return Answer((), follow(reader, Console(), options.interval).as_dict())
    return Answer(() if options.json else _screen(view), view.as_dict())


def _screen(view: View) -> list[str]:
    from rich.console import Console

    from bloomdupe.monitoring.top import SORTS, screen

    console = Console(force_terminal=False)
    with console.capture() as captured:
        console.print(screen(view, console, SORTS[0]))
    return captured.get().splitlines()[:-1]  # without the keys


def _in_terminal() -> bool:
    """Whether there is a terminal with a screen that can be refreshed."""
    return os.environ.get("TERM") != "dumb" and all(
        file is not None and file.isatty() for file in (sys.stdout, sys.stdin)
    )


def report(options: Namespace) -> Answer:
    """Write the page; an existing page is replaced when the new page is complete."""
    page = _page(options.job).encode()
    record = {"page": options.output, "bytes": len(page)}
    if options.output == "-":
        if options.json:
            raise SettingError("--output -: --json needs a file for the page")
        write(page)
        return Answer((), record)
    target = Path(options.output)
    if target.is_dir():
        raise SettingError(f"--output {target}: it is a directory; name a file")
    try:
        write_file(target, [page], mode=0o666)
    except OSError as error:
        raise BloomDupeError(f"--output {target}: {error.strerror}") from error
    return Answer([f"{options.output}: {len(page):,} bytes"], record)


def _page(job: Job) -> str:
    view = JobReader(job).read()
    need("matplotlib", "report", "bloomdupe report")
    from bloomdupe.monitoring.report import report as page_of

    return page_of(view)
