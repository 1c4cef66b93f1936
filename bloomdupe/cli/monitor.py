"""``top`` and ``report``: a job in the terminal, and as a page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from bloomdupe.cli.output import write
from bloomdupe.cli.verb import Answer
from bloomdupe.errors import BloomDupeError, SettingError
from bloomdupe.jobs.reader import JobReader
from bloomdupe.store.files import write_file

if TYPE_CHECKING:
    from argparse import Namespace

    from bloomdupe.jobs.job import Job


def top(options: Namespace) -> Answer:
    """Show the job until q is pressed, or once where there is no terminal."""
    if not 0.1 <= options.interval <= 3_600:
        raise SettingError(
            f"--interval {options.interval:g}: expected seconds from 0.1 to 3600"
        )
    job: Job = options.job
    reader = JobReader(job)
    view = reader.read()
    if options.json:
        return Answer((), view.as_dict())
    from bloomdupe.monitoring.top import SORTS, follow, screen

    if _in_terminal():
        return Answer((), follow(reader, options.interval).as_dict())
    *lines, _ = screen(view, get_terminal_size(), SORTS[0])  # without the keys
    return Answer(lines, view.as_dict())


def _in_terminal() -> bool:
    """Whether there is a terminal with a screen that can be refreshed."""
    return os.environ.get("TERM") != "dumb" and all(
        file is not None and file.isatty() for file in (sys.stdout, sys.stdin)
    )


def report(options: Namespace) -> Answer:
    """Write the page; an existing page is replaced when the new page is complete."""
    from bloomdupe.monitoring.report import report as page_of

    page = page_of(JobReader(options.job).read()).encode()
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
