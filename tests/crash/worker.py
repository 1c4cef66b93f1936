"""The process under test: a crawl of a :class:`world.World`, see ``job.py``.

It is forked, and reports on its standard output; an error of ours ends it with exit
status 3 and one line.
"""

from __future__ import annotations

import fcntl
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
from job import REFUSED, Job, crawler
from support.forks import forked
from trial import OK, Outcome, crashed, silently_wrong
from world import Report, World, judge

from bloomdupe.crawl.in_flight import outcomes
from bloomdupe.errors import BloomDupeError
from bloomdupe.filter import layer
from bloomdupe.frontier import partition, slot_queue

BATCH = 100
"""Requests between two checkpoints, where it does not matter."""
PIPE = 4096
"""Bytes that a worker reports before it waits for its reader: it cannot come to its
end without a reader."""


def small_limits() -> None:
    """Let every limit be crossed within a tenth of a second."""
    layer.MIN_BACKLOG = 500
    slot_queue.MIN_BATCH = 2
    slot_queue.MAX_BATCH = 8
    partition.MAX_LOADED = 50_000
    outcomes.MOST_BYTES = 15_000


def without_sync() -> None:
    """Let LMDB sync nothing, for a control."""
    lmdb.open = functools.partial(  # type: ignore[assignment]
        lmdb.open, sync=False
    )


def without_sync_of_feeds() -> None:
    """Let no output file be synced, for a control; LMDB syncs by itself."""
    os.fdatasync = lambda fd: None


def crawl(
    path: Path,
    world: World,
    report: Callable[[bytes], object],
    batch: int = BATCH,
    **options: Any,
) -> None:
    """Crawl a world in this process: see ``Job.crawl()``."""
    small_limits()
    with Job(path, world) as job:
        job.crawl(report, batch, **options)


class Worker:
    """A process that does a crawl to its end, and reports on a pipe.

    ``before`` is called there first. The log of its ``errors`` goes to that file.
    """

    def __init__(
        self,
        path: Path,
        world: World,
        batch: int = BATCH,
        *,
        before: Callable[[], object] | None = None,
        errors: Path | None = None,
        **options: Any,
    ) -> None:
        crawler()
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE)

        def work() -> None:
            os.close(reading)
            os.dup2(writing, 1)
            os.close(writing)
            if errors is not None:
                os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            if before is not None:
                before()
            try:
                crawl(path, world, functools.partial(os.write, 1), batch, **options)
            except BloomDupeError as error:
                if errors is not None:
                    os.write(2, f"{type(error).__name__}: {error}\n".encode())
                sys.exit(REFUSED)

        self.process = forked(work)
        os.close(writing)
        self.report = os.fdopen(reading, "rb")

    def finish(self, report: Report) -> int | None:
        """Read its report, and wait for its end; return its exit status."""
        with self.report:
            report.read(self.report.read())
        self.process.join()
        return self.process.exitcode


def stopped_clearly(status: int | None, errors: str) -> Outcome:
    """Judge the end of a worker with which something has gone wrong."""
    if status == 0:
        return silently_wrong("nobody noticed")
    if status != REFUSED or len(errors.splitlines()) != 1:
        return crashed(f"exit status {status}: {errors[-500:]}")
    return OK


def recovered(path: Path, world: World, report: Report) -> Outcome:
    """Judge the files after a fault, and their crawl when it has gone on to its end."""
    outcome = judge(path, world, report)
    if outcome != OK:
        return outcome
    try:
        crawl(path, world, report.read)
    except BloomDupeError as error:
        return crashed(f"going on, it ended with {type(error).__name__}: {error}")
    return judge(path, world, report, ended=True)
