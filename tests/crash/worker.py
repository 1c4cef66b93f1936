"""The process under test: a crawl of a :class:`world.World`, without Scrapy.

As a program it reports on standard output. Errors of ours end it with exit status 3 and one line.
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


def work(
    path: Path,
    world: World,
    batch: int,
    report: Callable[[bytes], object],
    *,
    stop_after: int | None = None,
    marks_first: bool = False,
    deaf: bool = False,
) -> None:
    """Crawl the world to its end, with a checkpoint after each ``batch`` requests.

    Without a word it stops after ``stop_after`` checkpoints. Two ways to be wrong,
    for the controls: ``marks_first`` makes every mark durable before its request, as
    Scrapy does; ``deaf`` takes a failed checkpoint for a good one.
    """
    with world.open(path) as seen:
        owed = Frontier(seen)
        store = owed._store
        assert store is not None
        # The same for the same store, another one for the next run.
        rng = random.Random(len(seen))

        def offer(number: int) -> None:
            slot, priority = world.slot(number), world.priority(number)
            payload, fingerprint = world.payload(number), world.fingerprint(number)
            if not marks_first:
                owed.offer(fingerprint, slot, priority, payload)
            elif seen.add(fingerprint):
                store.commit(seen.change())
                owed.push(slot, priority, payload)

        offer(0)
        checkpoints = 0
        settled: list[int] = []
        under_way = []
        report(b"begun\n")
        while True:
            while len(under_way) < 16 and (entry := owed.lease()):
                number = int((entry.payload or b"").partition(b" ")[0])
                report(b"s %d\n" % number)
                under_way.append((number, entry))
            if under_way:
                number, entry = under_way.pop(rng.randrange(len(under_way)))
                for link in world.links(number):
                    offer(link)
                owed.settle(entry)
                settled.append(number)
            if len(settled) >= batch or owed.due or not under_way:
                try:
                    owed.checkpoint()
                except BloomDupeError:
                    if not deaf:
                        raise
                report(b"a %b\n" % b" ".join(b"%d" % n for n in settled))
                settled.clear()
                checkpoints += 1
                if checkpoints == stop_after:
                    return
                if not (owed.pending or owed.leased):
                    break
    report(b"finished\n")


def fork_worker(
    path: Path, world: World, batch: int, **options: Any
) -> tuple[int, int]:
    """Start it in a child; return its pid and the reading end of its report."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        small_limits()
        work(path, world, batch, lambda line: os.write(writing, line), **options)
        status = 0
    except BloomDupeError:
        status = REFUSED
    except BaseException:  # noqa: BLE001 - a forked child must not go on as its parent
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def run_to_end(path: Path, world: World, report: Report) -> int:
    """Let a worker finish what there is; return its exit status."""
    pid, reading = fork_worker(path, world, 100)
    with open(reading, "rb") as pipe:
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
        work(
            options.path,
            World(options.seed, options.size),
            options.batch,
            lambda line: os.write(1, line),
            marks_first=options.marks_first,
            deaf=options.deaf,
        )
    except BloomDupeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
