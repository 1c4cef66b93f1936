"""F9: damage to the data file of a store, of nine kinds.

A child must refuse it with an error of ours, or find everything as it was. The judge is
the contents of the store after each checkpoint, as the process knew them that made it.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from child import each_caught, in_child
from support.waiting import until_later
from trial import CONTROL_SEED, OK, Fault, Outcome, refused_well, silently_wrong
from worker import crawl, recovered
from world import Report, World, look

from bloomdupe.errors import StoreError
from bloomdupe.store import files
from bloomdupe.store.lmdb import open_data

PAGE = 4096
SECTOR = 512
SIZE = 1_500
CHECKPOINTS = 12
BATCH = 60
TRIALS = 10
"""Of each kind in CI's share."""


class History(NamedTuple):
    """A store, its contents at each checkpoint, and the report of its maker."""

    path: Path
    files: list[bytes]
    held: list[tuple[set[int], list[int]]]
    reports: list[Report]


def make_history(path: Path, world: World, checkpoints: int) -> History:
    """Crawl a part of the world and stop in good order."""
    history = History(path, [], [], [])
    report = Report()
    for _ in range(checkpoints):
        crawl(path, world, report.read, BATCH, stop_after=1)
        copy = path.with_name("look")
        shutil.copytree(path, copy)
        history.files.append((path / files.DATA).read_bytes())
        history.held.append(look(copy, world))
        history.reports.append(report.copy())
        shutil.rmtree(copy)
    return history


# Nine kinds of damage

Kind = Callable[[bytearray, History, random.Random], None]


def flip(data: bytearray, rng: random.Random, bits: int) -> None:
    data[rng.randrange(len(data))] ^= bits


def overwrite(data: bytearray, rng: random.Random, new: bytes) -> None:
    """Lose a part of the file."""
    at = rng.randrange(len(data) // len(new)) * len(new)
    data[at : at + len(new)] = new


def swapped_pages(data: bytearray, _: History, rng: random.Random) -> None:
    one, other = rng.sample(range(0, len(data), PAGE), 2)
    data[one : one + PAGE], data[other : other + PAGE] = (
        data[other : other + PAGE],
        data[one : one + PAGE],
    )


def stale_page(data: bytearray, history: History, rng: random.Random) -> None:
    """Put an older version of a page that is no head in its place."""
    while True:
        old = rng.choice(history.files[:-1])
        at = rng.randrange(2, len(old) // PAGE) * PAGE
        if old[at : at + PAGE] != data[at : at + PAGE]:
            data[at : at + PAGE] = old[at : at + PAGE]
            return


def damaged_head(data: bytearray, history: History, rng: random.Random) -> None:
    """Damage the part of a head that means something, or put an older one there."""
    at = rng.randrange(2) * PAGE
    way = rng.choice(["bit", "byte", "zeros", "stale", "stale", "other"])
    where = at + rng.randrange(152)
    if way == "bit":
        data[where] ^= 1 << rng.randrange(8)
    elif way == "byte":
        data[where] ^= rng.randint(1, 255)
    elif way == "zeros":
        data[at : at + SECTOR] = bytes(SECTOR)
    elif way == "stale":
        old = rng.choice(history.files[:-1])
        data[at : at + PAGE] = old[at : at + PAGE]
    else:
        data[at : at + PAGE] = data[PAGE - at : 2 * PAGE - at]


KINDS: dict[str, Kind] = {
    "bit": lambda data, _, rng: flip(data, rng, 1 << rng.randrange(8)),
    "byte": lambda data, _, rng: flip(data, rng, rng.randint(1, 255)),
    "zeroed_sector": lambda data, _, rng: overwrite(data, rng, bytes(SECTOR)),
    "random_sector": lambda data, _, rng: overwrite(data, rng, rng.randbytes(SECTOR)),
    "zeroed_page": lambda data, _, rng: overwrite(data, rng, bytes(PAGE)),
    "random_page": lambda data, _, rng: overwrite(data, rng, rng.randbytes(PAGE)),
    "swapped_pages": swapped_pages,
    "stale_page": stale_page,
    "damaged_head": damaged_head,
}


class Damage(Fault):
    """A store that is damaged between two runs."""

    number = "F9"
    name = "damaged store, nine kinds"
    cases = 2

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _damaged(folder, seed, TRIALS // self.cases)

    def control(self, folder: Path) -> list[Outcome]:
        """Without the check; or only without it once a commit was interrupted."""

        def damaged(name: str, value: object) -> Callable[..., list[Outcome]]:
            def control(place: Path) -> list[Outcome]:
                setattr(open_data, name, value)
                kinds = ("zeroed_page", "random_page", "stale_page")
                return _damaged(place, CONTROL_SEED, 5, 3, 500, kinds)

            return control

        marked = open_data.Marked(trusted=True, transaction=0)
        return each_caught(
            folder,
            damaged("read_mark", lambda _: marked),
            damaged("COMMIT_NANOSECONDS", 2**63),
        )


def _damaged(
    folder: Path,
    seed: int,
    trials: int,
    checkpoints: int = CHECKPOINTS,
    size: int = SIZE,
    kinds: Iterable[str] = KINDS,
) -> list[Outcome]:
    world = World(seed, size, feeds=False)  # the store is what is damaged
    history = make_history(folder / "made" / "store", world, checkpoints)
    outcomes = []
    for kind in kinds:
        for number in range(trials):
            rng = random.Random(f"{seed} {kind} {number}")
            path = folder / f"{kind}-{number}"
            shutil.copytree(history.path, path)
            # As it is after a run: no process has touched it since.
            with world.open(path):
                pass
            powerless = rng.random() < 0.5
            if powerless:  # the machine was started since, so the mark is void
                (path / files.MARK).unlink()
            elif number % 2:  # as if the next commit had been interrupted, long ago
                mark = json.loads((path / files.MARK).read_text("ascii"))
                (path / files.MARK).write_text(json.dumps(mark | {"committing": 1}))
            until_later(path / files.DATA)
            data = bytearray((path / files.DATA).read_bytes())
            before = bytes(data)
            KINDS[kind](data, history, rng)
            (path / files.DATA).write_bytes(data)
            outcome = OK
            if data != before:
                outcome = in_child(lambda: _opened(path, world, history, not powerless))
            if outcome.verdict == "ok":
                shutil.rmtree(path)
            how = "power cut" if powerless else "closed"
            outcomes.append(outcome.at(f"{kind} {number}, {how}"))
    return outcomes


def _opened(path: Path, world: World, history: History, closed: bool) -> Outcome:
    """Open a damaged store: refused, or as it was, in full, and to the end."""
    try:
        found = look(path, world)
    except StoreError as error:
        return refused_well(error, path, "the last backup")
    report = history.reports[-1].copy()
    if found != history.held[-1]:
        # The last head is gone: the cut before, as if the last commit had never been.
        # Only the mark knows better.
        if closed or found != history.held[-2]:
            return silently_wrong("it opens, and holds something else")
        report = history.reports[-2].copy()
    return recovered(path, world, report)
