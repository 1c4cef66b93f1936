"""The process under test: a crawl of a :class:`world.World`, without Scrapy.

As a program it reports on standard output; an error of ours ends it with exit
status 3 and one line.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.line import Entry

sys.path.append(str(Path(__file__).parent))  # beside pytest, too

from world import Report, World

from bloomdupe import frontier, layer, line
from bloomdupe.errors import BloomDupeError
from bloomdupe.frontier import Frontier

REFUSED = 3
"""The exit status of a clear error."""


def small_limits() -> None:
    """Let every limit be crossed within a tenth of a second."""
    layer.MIN_BACKLOG = 500
    layer.MIN_SWEEP = 1
    line.MIN_BATCH = 2
    line.MAX_BATCH = 8
    frontier.MAX_LOADED = 50
    frontier.MAX_HEAD = 8


class Work:
    """A crawl of a world to its end, with a checkpoint after each ``batch`` requests.

    Without a word it stops after ``stop_after`` checkpoints. Two ways to be wrong,
    for the controls: ``marks_first`` makes every mark durable before its request, as
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
        self.settled: list[int] = []

    def run(self) -> None:
        with self.world.open(self.path) as seen:
            self.owed = Frontier(seen)
            # The same for the same store, another one for the next run.
            self.rng = random.Random(len(seen))
            self.offer(0)
            self.report(b"begun\n")
            if self.crawl():
                self.report(b"finished\n")

    def crawl(self) -> bool:
        """Work off what is owed; False if it was to stop before."""
        owed = self.owed
        under_way: list[tuple[int, Entry]] = []
        checkpoints = 0
        while True:
            while len(under_way) < 16 and (entry := owed.lease()):
                number = int((entry.payload or b"").partition(b" ")[0])
                self.report(b"s %d\n" % number)
                under_way.append((number, entry))
            if under_way:
                self.handle(*under_way.pop(self.rng.randrange(len(under_way))))
            if len(self.settled) >= self.batch or owed.due or not under_way:
                self.checkpoint()
                checkpoints += 1
                if checkpoints == self.stop_after:
                    return False
                if not (owed.pending or owed.leased):
                    return True

    def handle(self, number: int, entry: Entry) -> None:
        for link in self.world.links(number):
            self.offer(link)
        self.owed.settle(entry)
        self.settled.append(number)

    def offer(self, number: int) -> None:
        slot, priority = self.world.slot(number), self.world.priority(number)
        payload = self.world.payload(number)
        fingerprint = self.world.fingerprint(number)
        if not self.marks_first:
            self.owed.offer(fingerprint, slot, priority, payload)
        elif self.owed.seen.add(fingerprint):
            store = self.owed._store
            assert store is not None
            store.commit(self.owed.seen.change())
            self.owed.push(slot, priority, payload)

    def checkpoint(self) -> None:
        failed = False
        try:
            self.owed.checkpoint()
        except BloomDupeError:
            if not self.deaf:
                raise
            failed = True
        self.report(b"a %b\n" % b" ".join(b"%d" % n for n in self.settled))
        self.settled.clear()
        if failed:
            os._exit(REFUSED)


def fork_worker(
    path: Path,
    world: World,
    batch: int,
    *,
    before: Callable[[Callable[[bytes], object]], None] | None = None,
    **options: Any,
) -> tuple[int, int]:
    """Start it in a child; return its pid and the reading end of its report.

    ``before`` is called there first, with the function that reports.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1

    def report(line: bytes) -> None:
        os.write(writing, line)

    try:
        os.close(reading)
        small_limits()
        if before is not None:
            before(report)
        Work(path, world, batch, report, **options).run()
        status = 0
    except BloomDupeError:
        status = REFUSED
    except BaseException:  # noqa: BLE001 - a forked child must not go on as its parent
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def run_to_end(path: Path, world: World, report: Report, **options: Any) -> int:
    """Let a worker finish what there is; return its exit status."""
    pid, reading = fork_worker(path, world, 100, **options)
    with os.fdopen(reading, "rb") as pipe:
        report.read(pipe)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def command(path: Path, world: World, batch: int, *options: str) -> list[str]:
    """The command that does the same in a program of its own."""
    program = [sys.executable, __file__, str(path), str(world.seed), str(world.size)]
    return [*program, str(batch), *options]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("size", type=int)
    parser.add_argument("batch", type=int)
    parser.add_argument("--marks-first", action="store_true")
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--no-sync", action="store_true")
    options = parser.parse_args()
    if options.no_sync:
        lmdb.open = functools.partial(lmdb.open, sync=False)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # EFBIG instead
    small_limits()
    try:
        Work(
            options.path,
            World(options.seed, options.size),
            options.batch,
            lambda line: os.write(1, line),
            marks_first=options.marks_first,
            deaf=options.deaf,
        ).run()
    except BloomDupeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
