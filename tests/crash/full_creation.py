"""F8: a store is created, or opened first, on a disk that has hardly any room."""

from __future__ import annotations

import faulthandler
import os
import random
import subprocess
from pathlib import Path

from child import in_child
from full_disk import make_room, small_disk
from trial import OK, Fault, Outcome, lost, silently_wrong

from bloomdupe import BloomFilter
from bloomdupe.errors import SettingError, StoreError, StoreFullError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store import files

MOST = 100
"""Kilobytes; a new store with a frontier takes 60."""


class FullCreation(Fault):
    """It is refused, and can be created when there is room; or it is there."""

    number = "F8"
    name = "creation on a nearly full disk"
    trials = 50
    excusable = True

    def missing(self) -> str | None:
        return None if os.geteuid() == 0 else "needs root, to mount a tmpfs"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        sizes = range(4, MOST + 1, 4)
        created = [_created(folder / str(size), size, seed) for size in sizes]
        return [*created, *_opened_without_room(folder)]

    def control(self, folder: Path) -> list[Outcome]:
        """Without space for LMDB's lock file before LMDB maps it."""
        making, parent = files.make_lock_file, os.getpid()

        def careless(path: Path) -> None:
            del path
            if os.getpid() != parent:
                faulthandler.disable()  # it dies of SIGBUS, as it should: not a word

        files.make_lock_file = careless
        try:
            return _opened_without_room(folder)
        finally:
            files.make_lock_file = making


def _created(disk: Path, kilobytes: int, seed: int) -> Outcome:
    rng = random.Random(f"{seed} {kilobytes}")
    path = disk / "job" / "store"
    with small_disk(disk, kilobytes):
        if rng.random() < 0.5:
            path.parent.mkdir()
        outcome = in_child(lambda: _in_no_room(path))
        if outcome.verdict != "ok":
            return Outcome(outcome.verdict, f"{kilobytes} kB: {outcome.words}")
        subprocess.run(["sync"], check=True)
        make_room(disk)
        outcome = in_child(lambda: _with_room(path))
    return Outcome(outcome.verdict, f"{kilobytes} kB, then more: {outcome.words}")


def _opened_without_room(folder: Path) -> list[Outcome]:
    """A store that comes from a backup, so without the files of locks."""
    outcomes = []
    for blocks in range(4):
        disk = folder / f"full-{blocks}"
        path = disk / "job" / "store"
        with small_disk(disk, 1000):
            _use(path)
            for file in path.iterdir():
                if file.name not in (files.DATA, files.MARKER):
                    file.unlink()
            free = os.statvfs(disk).f_bavail
            (disk / "filling").write_bytes(bytes((free - blocks) * 4096))
            outcome = in_child(lambda: _in_no_room(path))  # noqa: B023
            if outcome.verdict == "ok":
                (disk / "filling").unlink()
                outcome = in_child(lambda: _with_room(path))  # noqa: B023
        words = f"opened with {blocks} blocks free: {outcome.words}"
        outcomes.append(Outcome(outcome.verdict, words))
    return outcomes


def _in_no_room(path: Path) -> Outcome:
    try:
        _use(path)
    except StoreFullError as error:
        if "make room" in str(error) and str(path.parent) in str(error):
            return OK
        return lost(f"the refusal does not help: {error}")
    except SettingError as error:
        return OK if "bytes of disk free" in str(error) else lost(str(error))
    except StoreError as error:
        return lost(f"{type(error).__name__}: {error}")
    return OK


def _with_room(path: Path) -> Outcome:
    try:
        _use(path)
    except StoreError as error:
        return lost(f"{type(error).__name__}: {error}")
    with BloomFilter.open(path) as seen:
        return OK if "a" in seen else silently_wrong("what was durable is gone")


def _use(path: Path) -> None:
    with BloomFilter.open(path, 1000, 1e-6) as seen:
        owed = Frontier(seen)
        seen.add(b"a")
        owed.push("host", 0, b"payload")
        owed.checkpoint()
