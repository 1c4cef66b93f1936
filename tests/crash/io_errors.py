"""F7: an I/O error or a full disk at every system call that touches the store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import strace
from syscalls import BATCH, PARTS, SIZE, judge_both, prepare, start_from
from trial import CONTROL_SEED, Fault, Outcome, crashed, silently_wrong
from worker import REFUSED
from world import Report, World

CALLS = (*strace.WRITES, "openat", "pread64", "flock", "newfstatat")
"""Those that write, and those that open a store."""
ERRORS = ("EIO", "ENOSPC")


class IOErrors(Fault):
    """A crawl in which one system call fails: it stops and says so; run it again."""

    number = "F7"
    name = "EIO and ENOSPC at every system call"
    trials = 170
    cases = PARTS  # every other point

    def missing(self) -> str | None:
        return strace.missing()

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawls(folder, seed)

    def control(self, folder: Path) -> list[Outcome]:
        return _crawls(folder, 2 * CONTROL_SEED, few=20, deaf=True)


def _crawls(
    folder: Path, seed: int, *, few: int | None = None, **options: Any
) -> list[Outcome]:
    """Let every tenth call fail, or a ``few`` of all."""
    world = World(seed // PARTS // 2, SIZE)
    begun = folder / "begun"
    before = Report()
    if seed % 2:
        prepare(begun, world, before)
    place = folder / "dry"
    path = start_from(begun, place)
    dry = strace.run(
        folder / "log", path, world, BATCH,
        trace=CALLS, strace_options=("-y",), **options,
    )  # fmt: skip
    if dry.status:
        return [crashed(f"undisturbed, it ended with {dry.status}: {dry.errors}")]
    points = [
        (call, error)
        for call in dry.calls
        if call.name not in {"openat", "newfstatat"}
        or any(name in call.arguments for name in (str(place), "out"))
        for error in ERRORS
    ]
    part = points[seed // 2 % PARTS :: PARTS]
    if few is not None:
        part = points[:: -(-len(points) // few)]
    outcomes = []
    for call, error in part:
        where = f"{error} in {call.name} {call.nth}"
        place = folder / where.replace(" ", "-")
        path = start_from(begun, place)
        report = before.copy()
        run = strace.run(
            folder / "log", path, world, BATCH, trace=CALLS,
            strace_options=strace.inject(call, f"error={error}"), **options,
        )  # fmt: skip
        report.read(run.report.splitlines(keepends=True))
        outcome = _manners(run, call, where)
        if outcome.verdict == "ok":
            outcome = judge_both(path, world, report, where)
        if outcome.verdict == "ok":
            shutil.rmtree(place, ignore_errors=True)
        outcomes.append(outcome)
    return outcomes


def _manners(run: strace.Run, call: strace.Call, where: str) -> Outcome:
    """Whether a run that met an error ended as it should."""
    # Making a directory that is there already is allowed to fail, and so is the note
    # that spares the next run a check; a file without name need not be cut.
    harmless = call.name == "mkdir" or any(
        word in call.arguments for word in ("clean.json", "(deleted)")
    )
    if run.status == 0 and call.name in strace.WRITES and not harmless:
        return silently_wrong(f"{where}: nobody noticed")
    if run.status not in {0, REFUSED}:
        return crashed(f"{where}: exit status {run.status}: {run.errors[-500:]}")
    if run.status and len(run.errors.splitlines()) != 1:
        return crashed(f"{where}: no clear message: {run.errors}")
    return Outcome("ok")
