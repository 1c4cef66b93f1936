"""World: a link graph of numbers for a bare frontier, and the judge of its crawls.

The process under test reports on a pipe: ``s N`` before it works on a request,
``a N N N`` when a checkpoint that holds these as done has returned.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from job import Job
from support.agreement import disagreements
from support.judge import compare
from trial import OK, Outcome, lost, outcome_of, silently_wrong

from bloomdupe import BloomFilter
from bloomdupe.errors import BloomDupeError, StoreDamagedError
from bloomdupe.store.files import DATA

if TYPE_CHECKING:
    from bloomdupe.frontier.slot_queue import Entry

FEED = Path("out", "items.jsonl")
LENGTHS = (0, 30, 30, 30, 100, 100, 100, 1000, 5000)
"""Of payloads, bytes; the longest span several pages of the file."""


@dataclass(frozen=True)
class World:
    """Requests 0 to ``size - 1``: links from 0 lead to all of them."""

    seed: int
    size: int
    feeds: bool = True
    """Whether its crawls put out the items."""

    def _chance(self, number: int) -> int:
        return (number + 1) * (2 * self.seed + 0x9E3779B97F4A7C15) % (1 << 64) >> 16

    def links(self, number: int) -> list[int]:
        far = self._chance(number) % self.size
        links = (2 * number + 1, 2 * number + 2, far, number)
        return [link for link in links if link < self.size]

    def payload(self, number: int) -> bytes:
        chance = self._chance(number)
        length = LENGTHS[chance % len(LENGTHS)]
        return (b"%d %d " % (number, chance)).ljust(length, b".")

    def number_of(self, entry: Entry) -> int:
        """Return the number of a request, by its payload."""
        return int((entry.payload or b"-1 ").partition(b" ")[0])

    def items(self, number: int) -> list[dict[str, Any]]:
        """Return the output of a request: nothing, an item or several."""
        chance = self._chance(number) >> 8
        text = "x" * LENGTHS[chance % len(LENGTHS)]
        return [
            {"request": number, "part": part, "text": text}
            for part in range(chance % 3)
        ]

    def fingerprint(self, number: int) -> bytes:
        return b"%d" % number

    def open(self, path: Path) -> BloomFilter:
        """Open or create the filter of a crawl of this world."""
        # The key is given, so that the same seed makes the same system calls. A request
        # that the filter takes for a duplicate would count as lost.
        key = self.seed.to_bytes(16, "little")
        return BloomFilter.open(path, self.size, 1e-9, exact=True, key=key)


@dataclass
class Report:
    """The reports of the process under test so far, over all its runs."""

    started: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    """Begun again though it was acknowledged before."""
    finished: bool = False

    def copy(self) -> Report:
        return Report(set(self.started), set(self.acknowledged), set(self.repeated))

    def read(self, report: bytes) -> None:
        """Read whole lines of a report; torn lines are left out."""
        for line in report.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                continue
            kind, *numbers = line.split()
            if kind == b"s":
                begun = {int(number) for number in numbers}
                self.repeated |= begun & self.acknowledged
                self.started |= begun
            elif kind == b"a":
                self.acknowledged |= {int(number) for number in numbers}
            elif kind == b"finished":
                self.finished = True


def judge(path: Path, world: World, report: Report, *, ended: bool = False) -> Outcome:
    """Open the store after a fault, and compare it with the report.

    ``ended``: the crawl has been run to its end since.
    """
    try:
        seen, pending = look(path, world)
    except BloomDupeError as error:
        return lost(f"{type(error).__name__}: {error}")
    waiting = set(pending)
    done = seen - waiting
    reached = {link for number in done for link in world.links(number)} | {0}
    if not seen and not report.acknowledged and not ended:
        return OK  # cut off before the first request was durable
    for wrong, kind, words in (
        (reached - seen, lost, "nobody owes"),
        (report.acknowledged - done, silently_wrong, "done, and to be done again"),
        (done - report.started, lost, "counts as done, and never was begun"),
        (pending[len(waiting) :], silently_wrong, "a request waits twice"),
        (waiting - seen, silently_wrong, "waits, and was never seen"),
        (report.repeated, silently_wrong, "done twice"),
        ({*range(world.size)} - done if ended else (), lost, "not done at the end"),
    ):
        if wrong:
            return kind(f"{words}: {sorted(wrong)[:9]}")
    if not world.feeds:
        return OK
    place = path.parents[1] / FEED
    return outcome_of(
        compare(
            Counter(
                json.dumps(item) for number in done for item in world.items(number)
            ),
            Counter(place.read_text().splitlines() if place.exists() else ()),
        )
    )


def look(path: Path, world: World) -> tuple[set[int], list[int]]:
    """Return the seen and the pending requests.

    Pending requests have their payloads as they were. This finishes the output file.
    """
    with Job(path, world) as job:
        filter_, pending = job.frontier.seen, []
        while entry := job.frontier.pop():
            number = world.number_of(entry)
            # With -1: it waits, and was never seen.
            pending.append(number if entry.payload == world.payload(number) else -1)
        seen = {n for n in range(world.size) if world.fingerprint(n) in filter_}
    # Not every store is checked when it is opened.
    if problems := disagreements(path / DATA):
        raise StoreDamagedError(problems[0])
    return seen, pending
