"""Crawls of a :class:`world.World`, see ``job.py``, and what becomes of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
from job import REFUSED, Job
from trial import OK, Outcome, crashed, silently_wrong
from world import Report, World, judge

from bloomdupe.crawl.in_flight import outcomes
from bloomdupe.errors import BloomDupeError
from bloomdupe.filter import layer
from bloomdupe.frontier import partition, slot_queue

BATCH = 100
"""Requests between two checkpoints, where it does not matter."""


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
