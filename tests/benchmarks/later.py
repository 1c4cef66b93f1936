"""The costs of a million requests scheduled for later, and a kill among them.

    python tests/benchmarks/later.py [--waiting 1000000] [--rounds 5]
    python tests/benchmarks/later.py --kills 10 [--waiting 1000000]

CPU time of this process, with a checkpoint every 1,000 requests: ordinary requests
without any scheduled for later, and with very many; then the pushing of such requests,
and their turn when they are due. With ``--kills`` a process that hands them out is
killed so many times; it reports which a checkpoint has settled, and its reader judges.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from frontier import PAYLOAD, cpu
from machine import describe, resident
from runner import Report, in_turn, options

from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier

OPERATIONS = 20_000
BETWEEN_CHECKPOINTS = 1_000
HOSTS = 100
SECONDS_EACH = 60e-6
"""To push a million takes a minute at most."""
WITHIN = 20.0
"""Seconds within which all are due that a killed process hands out."""


def steps(owed: Frontier, count: int) -> Iterator[int]:
    for number in range(count):
        if number % BETWEEN_CHECKPOINTS == 0:
            owed.checkpoint()
        yield number
    owed.checkpoint()


def fill(owed: Frontier, waiting: int, begin: float, within: float) -> None:
    rng = random.Random(1)
    for number in range(waiting):
        due = begin + rng.uniform(0, within)
        owed.push(f"host-{number % HOSTS}", 0, b"%d" % number, not_before=due)
        if owed.due:
            owed.checkpoint()
    owed.checkpoint()


def ordinary(owed: Frontier) -> dict[str, float]:
    """Return microseconds of CPU a push and a pop."""
    begun = cpu()
    for number in steps(owed, OPERATIONS):
        owed.push(f"host-{number % HOSTS}", 0, PAYLOAD)
    push = cpu() - begun
    begun = cpu()
    for _ in steps(owed, OPERATIONS):
        entry = owed.lease()
        assert entry is not None
        owed.settle(entry)
    pop = cpu() - begun
    return {"push": push / OPERATIONS * 1e6, "pop": pop / OPERATIONS * 1e6}


def postponed(owed: Frontier, wall: list[float]) -> dict[str, float]:
    """The same for requests that are due in a minute, among the rest."""
    begun = cpu()
    for number in steps(owed, OPERATIONS):
        due = wall[0] + 60 + number / OPERATIONS
        owed.push(f"host-{number % HOSTS}", 0, PAYLOAD, not_before=due)
    push = cpu() - begun
    wall[0] += 100
    begun = cpu()
    for _ in steps(owed, OPERATIONS):
        entry = owed.lease()
        assert entry is not None
        owed.settle(entry)
    pop = cpu() - begun
    return {"push": push / OPERATIONS * 1e6, "pop": pop / OPERATIONS * 1e6}


def measure(report: Report, waiting: int, rounds: int) -> None:
    wall = [1e9]
    with (
        tempfile.TemporaryDirectory(prefix="later-") as folder,
        BloomFilter.open(f"{folder}/none", 1_000_000) as one,
        BloomFilter.open(f"{folder}/many", 1_000_000) as other,
    ):
        none = Frontier(one, wall=lambda: wall[0])
        many = Frontier(other, wall=lambda: wall[0])
        before, _ = resident()
        fill(many, waiting, wall[0] + 86_400, 30 * 86_400.0)
        memory = (resident()[0] - before) / 1e6
        assert other._store is not None
        disk = other._store.disk_bytes() / waiting
        found = in_turn(
            rounds,
            {
                "ordinary, beside none": partial(ordinary, none),
                "ordinary, beside those": partial(ordinary, many),
                "for a point in time": partial(postponed, many, wall),
            },
        )
        assert many.waiting == waiting
    alone = found["ordinary, beside none"]
    report.table(
        f"{waiting:,} requests for a point in time",
        f"They take {memory:.0f} MB of memory, and {disk:.0f} bytes of disk each. CPU"
        " time of a request in µs, medians and ranges.",
        ["requests", "push", "range", "beside none", "pop", "range", "beside none"],
        [
            [
                name,
                *(own.median("push", ".1f"), own.span("push", ".1f")),
                own.of(alone, "push"),
                *(own.median("pop", ".1f"), own.span("pop", ".1f")),
                own.of(alone, "pop"),
            ]
            for name, own in found.items()
        ],
    )


CHILD = """
import os, sys, time
from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier
seen = BloomFilter.open(sys.argv[1])
owed = Frontier(seen)
say = lambda *words: os.write(1, (" ".join(words) + "\\n").encode())
leased = []
while owed.pending or owed.waiting:
    entry = owed.lease()
    if entry is not None:
        say("out", entry.payload.decode(), repr(time.time()))
        leased.append(entry)
    if len(leased) >= 500 or entry is None:
        for other in leased:
            owed.settle(other)
        owed.checkpoint()
        for other in leased:
            say("done", other.payload.decode(), "0")
        leased.clear()
        if entry is None:
            time.sleep(min(0.05, max(0.0, owed.seconds_until_ready() or 0.0)))
"""


def kills(waiting: int, times: int) -> None:
    """Kill a process that hands them out, and judge its reports."""
    with tempfile.TemporaryDirectory(prefix="later-") as folder:
        store = f"{folder}/s"
        with BloomFilter.open(store, 1_000_000) as seen:
            # Nothing is due before all are there.
            begin = time.time() + SECONDS_EACH * waiting + 5
            fill(Frontier(seen, wall=lambda: 0.0), waiting, begin, WITHIN)
        rng = random.Random(1)
        dues = [begin + rng.uniform(0, WITHIN) for _ in range(waiting)]
        print(f"{waiting:,} wait; the first is due in {begin - time.time():.0f} s")
        done: set[int] = set()
        early = again = killed = 0
        out = Counter[int]()
        chance = random.Random(2)
        ended = False
        while not ended:
            process = subprocess.Popen(
                [sys.executable, "-c", CHILD, store],
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],
            )
            assert process.stdout is not None
            limit = chance.randrange(waiting // (times + 1))
            lines = 0
            for line in process.stdout:
                if not line.endswith("\n"):
                    break
                what, number, when = line.split()
                if what == "done":
                    done.add(int(number))
                    lines += 1
                    if lines == limit and killed < times:
                        process.kill()
                        killed += 1
                else:
                    out[int(number)] += 1
                    early += float(when) < dues[int(number)]
                    again += int(number) in done
            # A settlement shortly before a kill may be missing from the reports.
            ended = process.wait() == 0
        print(
            f"killed {killed} times: {waiting - len(out):,} lost, {early:,} early,"
            f" {again:,} handed out again after they were settled;"
            f" {sum(out.values()) - waiting:,} that were under way came again"
        )


def main() -> int:
    given = options(__doc__, waiting=1_000_000, rounds=5, kills=0)
    report = Report(describe())
    if given.kills:
        kills(given.waiting, given.kills)
    else:
        measure(report, given.waiting, given.rounds)
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
