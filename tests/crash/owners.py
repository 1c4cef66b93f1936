"""F12: two processes on one job, forked children, copied job directories."""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from child import in_child
from trial import CONTROL_SEED, OK, Fault, Outcome, crashed, silently_wrong
from worker import REFUSED, Work, fork_worker, run_to_end, small_limits
from world import FEED, Report, World, judge

from bloomdupe.crawl.leases.lease import Lease
from bloomdupe.errors import StoreError, StoreLockedError
from bloomdupe.store import files
from bloomdupe.store.descriptor import Descriptor

SIZE = 1_000
BATCH = 10
REFUSALS = ("StoreDamagedError", "FeedChangedError")
"""Of a copy that is of no one moment: of a half-written store, or of a store and an
output of which one is older than the other."""


class Owners(Fault):
    """Scripts in which more than one process wants the same store."""

    number = "F12"
    name = "second process, fork, copied job"
    trials = 10

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        world = World(seed, SIZE)
        return [_played(script, folder / script.__name__, world) for script in SCRIPTS]

    def control(self, folder: Path) -> list[Outcome]:
        """Without the owner's lock."""

        def unlocked(path: Path, world: World) -> Outcome:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # they complain, of course
            faulthandler.disable()
            files.lock_owner = lambda path, name="x": Descriptor.open(
                path / name, os.O_CREAT, 0o600
            )
            return second_process(path, world)

        # An output that both write is refused for another reason.
        world = World(CONTROL_SEED, SIZE, feeds=False)
        return [_played(unlocked, folder / "unlocked", world)]


def _played(
    script: Callable[[Path, World], Outcome], folder: Path, world: World
) -> Outcome:
    (folder / "one").mkdir(parents=True)
    small_limits()
    outcome = in_child(lambda: script(folder / "one" / "job" / "store", world))
    return Outcome(outcome.verdict, f"{script.__name__}: {outcome.words}")


class Owner:
    """A worker that runs, and its report."""

    def __init__(self, path: Path, world: World, lines: int = 2 * BATCH) -> None:
        self.report = Report()
        self.pid, reading = fork_worker(path, world, BATCH)
        self._pipe = os.fdopen(reading, "rb")
        # Only so much of its report is read: soon it waits, and is not at its end.
        self.report.read(self._pipe.readline() for _ in range(lines))

    def wait(self) -> int:
        self.report.read(self._pipe)
        self._pipe.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()


def _refused(path: Path, world: World, pid: int) -> Outcome:
    """Try to work on a store that a process owns."""
    try:
        Work(path, world, BATCH, lambda _: None).run()
    except StoreLockedError as error:
        if str(pid) in str(error):
            return OK
        return crashed(f"the refusal does not name the owner, {pid}: {error}")
    return silently_wrong("a second owner was let in")


def _at_its_end(status: int, path: Path, world: World, report: Report) -> Outcome:
    if status:
        return crashed(f"the owner ended with {status}")
    return judge(path, world, report, ended=True)


def second_process(path: Path, world: World) -> Outcome:
    owner = Owner(path, world)
    refused = _refused(path, world, owner.pid)
    if refused != OK:
        return refused
    return _at_its_end(owner.wait(), path, world, owner.report)


def killed_owner(path: Path, world: World) -> Outcome:
    """Its lock is free at once."""
    owner = Owner(path, world)
    owner.kill()
    status = run_to_end(path, world, owner.report)
    return _at_its_end(status, path, world, owner.report)


def same_process(path: Path, world: World) -> Outcome:
    with world.open(path):
        return _refused(path, world, os.getpid())


def two_at_once(path: Path, world: World) -> Outcome:
    """Both find no store and create it, or only one does."""
    for attempt in range(5):
        (path.parents[1] / f"{attempt}").mkdir()
        place = path.parents[1] / f"{attempt}" / "job" / "store"
        owners = [Owner(place, world, lines=0) for _ in range(2)]
        ended = [owner.wait() for owner in owners]
        if not set(ended) <= {0, REFUSED}:
            return crashed(f"they ended with {ended}")
        report = Report()
        for owner in owners:
            report.started |= owner.report.started
            report.acknowledged |= owner.report.acknowledged
        outcome = _at_its_end(run_to_end(place, world, report), place, world, report)
        if outcome != OK:
            return outcome
    return OK


class _Forking(Work):
    """Forks in the middle; the child must not be able to do harm."""

    def __init__(self, *args: Any, child: Callable[[Work], bool]) -> None:
        super().__init__(*args)
        self.child = child
        self.handled = 0

    def handle(self, number: int, lease: Lease) -> None:
        super().handle(number, lease)
        self.handled += 1
        if self.handled == SIZE // 2:
            pid = os.fork()
            if not pid:
                os._exit(0 if self.child(self) else 1)
            self.report(b"child %d\n" % os.waitpid(pid, 0)[1])


def _forking(path: Path, world: World, child: Callable[[Work], bool]) -> Outcome:
    lines: list[bytes] = []
    _Forking(path, world, BATCH, lines.append, child=child).run()
    report = Report()
    report.read(lines)
    if b"child 0\n" not in lines:
        return silently_wrong("the forked child could do what it must not")
    return judge(path, world, report, ended=True)


def forked_child_commits(path: Path, world: World) -> Outcome:
    def child(work: Work) -> bool:
        work.offer(0)
        work.settled.append(0)
        work.owed.seen.add(b"changed")
        try:
            work.job.checkpoint.commit()
        except StoreError:
            return True
        return False

    return _forking(path, world, child)


def forked_child_closes(path: Path, world: World) -> Outcome:
    """The owner's lock is still the owner's."""
    owner = os.getpid()

    def child(work: Work) -> bool:
        work.owed.seen.close()
        return _refused(path, world, owner) == OK

    return _forking(path, world, child)


def copied(path: Path) -> Path:
    """Copy a job and its output, and return the store in the copy."""
    place = path.parents[1]
    shutil.copytree(place, place.with_name("copy"))
    return place.with_name("copy") / path.relative_to(place)


def copied_while_it_runs(path: Path, world: World) -> Outcome:
    """A plain copy is refused, or as good as any."""
    owner = Owner(path, world)
    before = owner.report.copy()
    copy = copied(path)
    status = owner.wait()
    before.started = owner.report.started
    outcome = judge(copy, world, before)
    if outcome != OK and not outcome.words.startswith(REFUSALS):
        return outcome
    return _at_its_end(status, path, world, owner.report)


class _Copying(Work):
    """Is copied in two parts while it runs, the second one much later."""

    def __init__(self, *args: Any, parts: tuple[Path, Path]) -> None:
        super().__init__(*args)
        self.parts = dict(zip((SIZE // 4, SIZE // 2), parts, strict=True))
        self.handled = 0

    def handle(self, number: int, lease: Lease) -> None:
        super().handle(number, lease)
        self.handled += 1
        if part := self.parts.get(self.handled):
            # Not by this process: to close a copied file would let go of its locks.
            target = part.parent.with_name("copy")
            subprocess.run(["cp", "-r", part, target], check=True)


def _copied_in_parts(path: Path, world: World, *, output_first: bool) -> Outcome:
    """A copy of two moments is refused, and nothing in it is changed."""
    place = path.parents[1]
    place.with_name("copy").mkdir()
    parts = (place / FEED.parts[0], place / "job")
    lines: list[bytes] = []
    parts = parts if output_first else parts[::-1]
    _Copying(path, world, BATCH, lines.append, parts=parts).run()
    report = Report()
    report.read(lines)
    output = place.with_name("copy") / FEED
    before = output.read_bytes()
    outcome = judge(place.with_name("copy") / path.relative_to(place), world, report)
    if not outcome.words.startswith("FeedChangedError"):
        return silently_wrong(f"a copy of two moments was taken: {outcome.words}")
    if output.read_bytes() != before:
        return silently_wrong("a copy was refused, and its output changed")
    return judge(path, world, report, ended=True)


def output_copied_first(path: Path, world: World) -> Outcome:
    return _copied_in_parts(path, world, output_first=True)


def store_copied_first(path: Path, world: World) -> Outcome:
    return _copied_in_parts(path, world, output_first=False)


def copied_job(path: Path, world: World) -> Outcome:
    """Both go on by themselves."""
    owner = Owner(path, world)
    owner.kill()
    copy = copied(path)
    for job in (path, copy):
        report = owner.report.copy()
        outcome = _at_its_end(run_to_end(job, world, report), job, world, report)
        if outcome != OK:
            return outcome
    return OK


SCRIPTS = (
    second_process,
    killed_owner,
    same_process,
    two_at_once,
    forked_child_commits,
    forked_child_closes,
    copied_while_it_runs,
    output_copied_first,
    store_copied_first,
    copied_job,
)
