"""The process under test: a crawl of a :class:`world.World`, without Scrapy.

As a program: ``worker.py STORE SEED SIZE BATCH [OPTION ...]``, its report on
standard output. Errors of ours end it with exit status 3 and one line.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.append(str(Path(__file__).parent))  # beside pytest, too

from world import World

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
    marks_first: bool = False,
) -> None:
    """Crawl the world to its end, with a checkpoint after each ``batch`` requests.

    ``marks_first`` makes every mark durable before its request, as Scrapy does:
    the control.
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
                owed.checkpoint()
                report(b"a %b\n" % b" ".join(b"%d" % n for n in settled))
                settled.clear()
                if not (owed.pending or owed.leased):
                    break
    report(b"finished\n")


def fork_worker(
    path: Path, world: World, batch: int, *, marks_first: bool = False
) -> tuple[int, int]:
    """Start it in a child; return its pid and the reading end of its report."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        os.close(reading)
        small_limits()
        work(
            path,
            world,
            batch,
            lambda line: os.write(writing, line),
            marks_first=marks_first,
        )
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a forked child must not go on as its parent
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def main() -> None:
    path, seed, size, batch = sys.argv[1:5]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # EFBIG instead
    small_limits()
    try:
        work(
            Path(path),
            World(int(seed), int(size)),
            int(batch),
            lambda line: os.write(1, line),
            marks_first="--marks-first" in sys.argv,
        )
    except BloomDupeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
