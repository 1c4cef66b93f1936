"""F2 and F7: ``kill -9``, an I/O error or a full disk at every system call.

The odd cases begin with a store that was killed before.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import strace
from child import each_caught
from trial import CONTROL_SEED, OK, Fault, Outcome, crashed, silently_wrong
from worker import crawl, recovered, stopped_clearly
from world import Report, World

from bloomdupe.store import files
from bloomdupe.store.lmdb import open_data

SIZE = 60
BATCH = 9
PARTS = 10
"""Cases that share the points of one crawl, each to try every tenth."""
OPENING = ("openat", "newfstatat")
"""Calls that open a store; those for other files are of no interest."""


class _EveryCall(Fault):
    """A crawl to which something happens when it enters its n-th call of a kind."""

    cases = PARTS  # every other point
    needs = "strace"
    traced: ClassVar[tuple[str, ...]] = strace.WRITES
    happens: ClassVar[tuple[str, ...]]
    """What strace is to inject, in words of its own."""

    def run(
        self, folder: Path, seed: int, few: int | None = None, **options: Any
    ) -> list[Outcome]:
        """Try every tenth point, or a ``few`` of all."""
        open_data.COMMIT_NANOSECONDS = 3600 * 10**9  # strace may take its time
        world = World(seed // PARTS // 2, SIZE)
        begun = folder / "begun"
        before = Report()
        if seed % 2:
            begun.mkdir()
            crawl(
                begun / "job" / "store", world, before.read, BATCH,
                stop_after=world.size // BATCH // 3,
            )  # fmt: skip
        place = folder / "dry"
        path = start_from(begun, place)
        dry = strace.run(
            folder / "log", path, world, BATCH,
            trace=self.traced, strace_options=("-y",), **options,
        )  # fmt: skip
        if dry.status:
            return [crashed(f"undisturbed, it ended with {dry.status}: {dry.errors}")]
        points = [
            (call, what)
            for call in dry.calls
            if call.name not in OPENING
            or any(name in call.arguments for name in (str(place), "out"))
            for what in self.happens
        ]
        part = points[seed // 2 % PARTS :: PARTS]
        if few is not None:
            part = points[:: -(-len(points) // few)]
        outcomes = []
        for call, what in part:
            place = folder / f"{what}-{call.name}-{call.nth}"
            path = start_from(begun, place)
            report = before.copy()
            injected = ("-e", f"inject={call.name}:{what}:when={call.nth}")
            run = strace.run(
                folder / "log", path, world, BATCH,
                trace=self.traced, strace_options=injected, **options,
            )  # fmt: skip
            report.read(run.report)
            outcome = self.ended(run, call, path, report)
            if outcome == OK:
                outcome = recovered(path, world, report)
            if outcome == OK:
                shutil.rmtree(place, ignore_errors=True)
            if outcome is not None:
                outcomes.append(outcome.at(f"{what} in {call.name} {call.nth}"))
        return outcomes

    def ended(
        self, run: strace.Run, call: strace.Call, path: Path, report: Report
    ) -> Outcome | None:
        """Judge how a run has ended; None if the call did not come."""
        raise NotImplementedError


class SystemCalls(_EveryCall):
    """A crawl that is killed."""

    number = "F2"
    name = "`kill -9` at every write and sync system call"
    happens = ("signal=SIGKILL",)

    def control(self, folder: Path) -> list[Outcome]:
        """Fingerprints are durable before their requests; commits are not noted."""

        def crawls(few: int, **options: Any) -> Callable[[Path], list[Outcome]]:
            return lambda place: self.run(place, 2 * CONTROL_SEED, few, **options)

        return each_caught(
            folder,
            crawls(3, marks_first=True),
            crawls(20, before=without_note),
        )

    def ended(
        self, run: strace.Run, call: strace.Call, path: Path, report: Report
    ) -> Outcome | None:
        del run, call
        if report.finished:
            return None
        if not (path / files.DATA).exists():
            return OK
        found = open_data.read_mark(path)
        if found.transaction > 0 and not found.trusted:
            return silently_wrong("it counts as changed by another program")
        return OK


class IOErrors(_EveryCall):
    """A crawl in which one system call fails: it stops and says so; run it again."""

    number = "F7"
    name = "EIO and ENOSPC at every system call"
    traced = (*strace.WRITES, *OPENING, "pread64", "flock")
    happens = ("error=EIO", "error=ENOSPC")

    def control(self, folder: Path) -> list[Outcome]:
        """A failed checkpoint counts as good."""
        return self.run(folder, 2 * CONTROL_SEED, few=20, deaf=True)

    def ended(
        self, run: strace.Run, call: strace.Call, path: Path, report: Report
    ) -> Outcome | None:
        """Ask for one line of error, unless it is harmless.

        Making a directory that is there already is allowed to fail, and so is the note
        that spares the next run a check; a file without name need not be cut.
        """
        del path, report
        harmless = call.name == "mkdir" or any(
            word in call.arguments for word in ("clean.json", "(deleted)")
        )
        if run.status == 0 and (harmless or call.name not in strace.WRITES):
            return OK
        return stopped_clearly(run.status, run.errors)


def without_note() -> None:
    """Note nothing before a commit, for a control."""
    open_data.OpenData.begin_commit = lambda *_: None  # type: ignore[method-assign]


def start_from(begun: Path, place: Path) -> Path:
    """Make a directory for a job, or copy a job that has begun; return its store."""
    if begun.exists():
        shutil.copytree(begun, place)
    else:
        place.mkdir()
    return place / "job" / "store"
