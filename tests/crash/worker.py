"""The process under test: a crawl of a :class:`world.World`, without an engine.

It goes the way of production from the scheduler down: requests are marked and pushed,
handed out, and acknowledged with their requests and items; their items pass the feed
exporter; one checkpoint makes all of it durable. It is forked, and reports on its
standard output; an error of ours ends it with exit status 3 and one line.
"""

from __future__ import annotations

import fcntl
import functools
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
from support.forks import ended, forked
from trial import OK, Outcome, crashed
from world import Report, World, judge

from bloomdupe.crawl.in_flight.request import InFlightRequest

sys.path.append(str(Path(__file__).parent))  # beside pytest, too

from job import Job, get_ready, working_in
from scrapy import Request

from bloomdupe.crawl.in_flight import outcomes
from bloomdupe.errors import BloomDupeError
from bloomdupe.filter import contents, layer
from bloomdupe.frontier import frontier, slot_queue

REFUSED = 3
"""The exit status of a clear error."""
PIPE = 4096
"""Bytes that a worker reports before it waits for its reader: it cannot come to its
end without a reader."""


def small_limits() -> None:
    """Let every limit be crossed within a tenth of a second."""
    layer.MIN_BACKLOG = 500
    contents.MIN_SWEEP = 1
    slot_queue.MIN_BATCH = 2
    slot_queue.MAX_BATCH = 8
    frontier.MAX_LOADED = 50_000
    frontier.MAX_HEAD = 8_000
    outcomes.MOST_BYTES = 15_000


def without_sync() -> None:
    """Let LMDB sync nothing, for a control."""
    lmdb.open = functools.partial(  # type: ignore[assignment]
        lmdb.open, sync=False
    )


def without_sync_of_feeds() -> None:
    """Let no output file be synced, for a control; LMDB syncs by itself."""
    os.fdatasync = lambda fd: None


class Work:
    """A crawl of a world to its end, with a checkpoint after each ``batch`` requests.

    Without a word it stops after ``stop_after`` checkpoints. Two ways to be wrong, for
    the controls: ``marks_first`` makes every fingerprint durable before its request, as
    Scrapy does; ``deaf`` takes a failed checkpoint for a good one, and dies.
    """

    def __init__(
        self,
        path: Path,
        world: World,
        batch: int,
        report: Callable[[bytes], object],
        *,
        stop_after: int | None = None,
        marks_first: bool = False,
        deaf: bool = False,
    ) -> None:
        self.path = path
        self.world = world
        self.batch = batch
        self.report = report
        self.stop_after = stop_after
        self.marks_first = marks_first
        self.deaf = deaf
        self.acked: list[int] = []

    def run(self) -> None:
        with working_in(self.path), Job(self.path, self.world) as job:
            self.job = job
            self.frontier = job.frontier
            # The same for the same store, another seed for the next run.
            self.rng = random.Random(len(self.frontier.seen))
            self.enqueue(0)
            if self.crawl():
                self.report(b"finished\n")

    def crawl(self) -> bool:
        """Work off the pending requests; False if it was to stop before."""
        frontier = self.frontier
        under_way: list[tuple[int, InFlightRequest]] = []
        checkpoints = 0
        while True:
            while len(under_way) < 16 and (entry := frontier.pop()):
                number = int((entry.payload or b"").partition(b" ")[0])
                self.report(b"s %d\n" % number)
                request = Request(f"http://world/{number}")
                under_way.append((number, self.job.registry.add(request, entry)))
            if under_way:
                self.handle(*under_way.pop(self.rng.randrange(len(under_way))))
            if len(self.acked) >= self.batch or frontier.due or not under_way:
                self.checkpoint()
                checkpoints += 1
                if checkpoints == self.stop_after:
                    return False
                if not (frontier.pending or frontier.unacked):
                    self.job.checkpoint.commit_everything(finished=True)
                    self.acknowledge()
                    return True

    def handle(self, number: int, in_flight: InFlightRequest) -> None:
        for link in self.world.links(number):
            self.enqueue(link)
        for item in self.world.items(number):
            self.job.scraped(item, in_flight)
        in_flight.ended(complete=True)
        self.job.count()
        self.acked.append(number)

    def enqueue(self, number: int) -> None:
        slot, priority = self.world.slot(number), self.world.priority(number)
        payload = self.world.payload(number)
        fingerprint = self.world.fingerprint(number)
        if not self.frontier.seen.add(fingerprint):
            return
        if self.marks_first:
            store = self.frontier.store
            assert store is not None
            store.commit(self.frontier.seen.prepare())
        self.frontier.push(slot, priority, payload)

    def checkpoint(self) -> None:
        failed = False
        try:
            self.job.checkpoint.commit()
        except BloomDupeError:
            if not self.deaf:
                raise
            failed = True
        self.acknowledge()
        if failed:
            os._exit(REFUSED)

    def acknowledge(self) -> None:
        """Report what is done for good."""
        self.report(b"a %b\n" % b" ".join(b"%d" % n for n in self.acked))
        self.acked.clear()


class Worker:
    """A process that does a crawl to its end, and reports on a pipe.

    ``before`` is called there first. The log of its ``errors`` goes to that file.
    """

    def __init__(
        self,
        path: Path,
        world: World,
        batch: int = 100,
        *,
        before: Callable[[], object] | None = None,
        errors: Path | None = None,
        **options: Any,
    ) -> None:
        get_ready()
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE)

        def work() -> int:
            os.close(reading)
            os.dup2(writing, 1)
            os.close(writing)
            if errors is not None:
                os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            small_limits()
            if before is not None:
                before()
            say = functools.partial(os.write, 1)
            try:
                Work(path, world, batch, say, **options).run()
            except BloomDupeError as error:
                if errors is not None:
                    os.write(2, f"{type(error).__name__}: {error}\n".encode())
                return REFUSED
            return 0

        self.pid = forked(work)
        os.close(writing)
        self.report = os.fdopen(reading, "rb")

    def finish(self, report: Report) -> int:
        """Read its report, and wait for its end; return its exit status."""
        with self.report:
            report.read(self.report.read())
        return ended(self.pid)


def recovered(path: Path, world: World, report: Report) -> Outcome:
    """Judge the files after a fault, and their crawl when it has gone on to its end."""
    outcome = judge(path, world, report)
    if outcome != OK:
        return outcome
    if status := Worker(path, world).finish(report):
        return crashed(f"run to its end, it ended with {status}")
    return judge(path, world, report, ended=True)
