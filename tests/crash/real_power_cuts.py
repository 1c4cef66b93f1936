"""F5: power cuts of a real file system, on a loop device, by FS_IOC_SHUTDOWN.

Data that was not synced is gone then, and the journal ends where it was. Until the cut,
random parts of the data file are written back early, as the kernel might.

The disks are mounted in a mount namespace of the trial. In the common namespace, a
process that unshares its mounts would get a copy of them. The disk would then stay
mounted there, and mounting it again would return the file system that was shut down.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import os
import random
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kills import BATCHES, MOST_REQUESTS, SIZE, listen
from trial import CONTROL_SEED, Fault, Outcome, crashed, scratch
from worker import REFUSED, fork_worker, run_to_end, without_sync
from world import Report, World, judge

SYSTEMS = {
    "ext4": (64, ["mkfs.ext4", "-q", "-F"]),
    "xfs": (320, ["mkfs.xfs", "-q", "-f"]),
}
"""Megabytes of the disk, and the command that formats it."""
SHUTDOWN = 0x8004587D
WITHOUT_LOG = struct.pack("I", 2)
CLONE_NEWNS = 0x00020000
WRITE_BACK = 2
"""SYNC_FILE_RANGE_WRITE: begin to write back, do not wait."""

WRITTEN_BACK = 0.01
"""Share of the lines of the report after which some pages are written back."""


class RealPowerCuts(Fault):
    """A crawl on a disk that stops; even cases on ext4, odd ones on XFS."""

    number = "F5"
    name = "power cut of a real ext4 or XFS"
    trials = 32
    cases = 4
    excusable = True

    def missing(self) -> str | None:
        return _missing()

    def quick(self, folder: Path, seed: int) -> list[Outcome]:
        return [
            *_crawl(folder, 2 * seed, cuts=2),
            *_crawl(folder, 2 * seed + 1, cuts=2),
        ]

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawl(folder, seed, cuts=8)

    def control(self, folder: Path) -> list[Outcome]:
        return _crawl(folder, CONTROL_SEED, cuts=2, before=_without_sync)


@functools.cache
def _missing() -> str | None:
    for _, (command, *_) in SYSTEMS.values():
        if shutil.which(command) is None:
            return f"needs {command}"
    with tempfile.TemporaryDirectory(dir=scratch()) as name:
        try:
            with own_mounts():
                for system in SYSTEMS:
                    disk = format_disk(Path(name), system)
                    with mounted(disk) as place:
                        shut_down(place)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"needs root and loop mounts of ext4 and XFS: {error}"
    return None


def format_disk(folder: Path, system: str) -> Path:
    megabytes, command = SYSTEMS[system]
    disk = folder / system
    with disk.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run([*command, str(disk)], check=True, capture_output=True)
    return disk


@contextlib.contextmanager
def own_mounts() -> Iterator[None]:
    """Mount for this process and its children alone."""
    folder = Path.cwd()
    with Path("/proc/self/ns/mnt").open("rb") as common:
        _call("unshare", CLONE_NEWNS)
        try:
            command = ["mount", "--make-rprivate", "/"]
            subprocess.run(command, check=True, capture_output=True)
            yield
        finally:
            _call("setns", common.fileno(), CLONE_NEWNS)
            os.chdir(folder)


def _call(name: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


@contextlib.contextmanager
def mounted(disk: Path) -> Iterator[Path]:
    place = disk.with_suffix(".mounted")
    place.mkdir(exist_ok=True)
    subprocess.run(
        ["mount", "-o", "loop", str(disk), str(place)], check=True, capture_output=True
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True, capture_output=True)


def shut_down(place: Path) -> None:
    directory = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(directory, SHUTDOWN, WITHOUT_LOG)
    finally:
        os.close(directory)


def _on_lost_disk(_: Callable[[bytes], object]) -> None:
    """Take it quietly: LMDB reads through a map, which is a SIGBUS there."""
    faulthandler.disable()


def _without_sync(report: Callable[[bytes], object]) -> None:
    _on_lost_disk(report)
    without_sync()


def _crawl(
    folder: Path,
    seed: int,
    cuts: int,
    before: Callable[[Callable[[bytes], object]], None] = _on_lost_disk,
) -> list[Outcome]:
    with own_mounts():
        return _crawl_here(folder, seed, cuts, before)


def _crawl_here(
    folder: Path,
    seed: int,
    cuts: int,
    before: Callable[[Callable[[bytes], object]], None],
) -> list[Outcome]:
    rng = random.Random(seed)
    world = World(seed, SIZE)
    disk = format_disk(folder, list(SYSTEMS)[seed % 2])
    report = Report()
    outcomes: list[Outcome] = []
    for _ in range(cuts):
        with mounted(disk) as place:
            store = place / "job" / "store"
            batch = rng.choice(BATCHES)
            pid, reading = fork_worker(store, world, batch, before=before)
            status = listen(
                pid, reading, rng.randrange(MOST_REQUESTS), report,
                meanwhile=lambda: _write_back(store / "data.mdb", rng),  # noqa: B023
                strike=lambda: shut_down(place),
            )  # fmt: skip
        if status not in {0, REFUSED, -signal.SIGKILL, -signal.SIGBUS}:
            return [*outcomes, crashed(f"on a disk that was gone: status {status}")]
        if report.finished:
            break  # before the cut
        with mounted(disk) as place:
            outcomes.append(judge(place / "job" / "store", world, report))
        if outcomes[-1].verdict != "ok":
            return outcomes
    with mounted(disk) as place:
        store = place / "job" / "store"
        status = run_to_end(store, world, report)
        if status:
            outcomes[-1] = crashed(f"run to its end, it ended with {status}")
        else:
            outcomes[-1] = judge(store, world, report, ended=True)
    return outcomes


def _write_back(path: Path, rng: random.Random) -> None:
    """Now and then, begin to write some pages back."""
    if rng.random() > WRITTEN_BACK:
        return
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        pages = max(1, os.fstat(file.fileno()).st_size // 4096)
        begin, length = rng.randrange(pages), rng.randint(1, pages)
        ctypes.CDLL(None).sync_file_range(
            file.fileno(),
            ctypes.c_int64(begin * 4096),
            ctypes.c_int64(length * 4096),
            WRITE_BACK,
        )
