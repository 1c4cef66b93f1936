"""Platform: everything that Linux and macOS do differently.

Linux tells about itself in files below ``/proc`` and ``/sys``. Where these are missing,
``sysctl`` and psutil tell the same. No Mac has run this code: its tests run on Linux,
with the names of Linux hidden (``tests/support/elsewhere``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import subprocess
import uuid
from functools import cache
from pathlib import Path

GROUP = Path("/sys/fs/cgroup/memory.max")
MOUNTS = Path("/proc/self/mountinfo")
BOOT = ("sysctl", "-n", "kern.bootsessionuuid")
"""Command that tells the identifier of the boot on macOS."""
BLOCK = 512
"""Bytes of the smallest block of a file system."""


@cache
def boot_id() -> str:
    """Return the identifier of the current boot of the machine.

    If the machine does not tell, each process has another identifier, so that nothing
    of another process seems to be of the current boot.
    """
    with contextlib.suppress(FileNotFoundError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    with contextlib.suppress(FileNotFoundError, subprocess.CalledProcessError):
        answer = subprocess.check_output(  # noqa: S603 - a constant
            BOOT, env={"PATH": path}, stderr=subprocess.DEVNULL, text=True
        )
        return answer.strip()
    return str(uuid.uuid4())


# Disks


def existing(path: Path) -> Path:
    """Return a place, or else the nearest folder above it that is there."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def free_bytes(path: Path) -> int:
    """Return the free bytes on the disk of a place, which need not be there."""
    return shutil.disk_usage(existing(path)).free


def file_system_of(path: Path) -> str:
    """Return the kind of the file system of a place, such as ``ext4``; empty: unknown.

    The place need not be there.
    """
    there = existing(path)
    try:
        table = MOUNTS.read_text(errors="surrogateescape")
    except FileNotFoundError:
        import psutil

        mounts = psutil.disk_partitions(all=True)
        inside = (m for m in mounts if there.resolve().is_relative_to(m.mountpoint))
        return str(max(inside, key=lambda mount: len(mount.mountpoint)).fstype)
    device = there.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in table.splitlines():
        fields, _, more = line.partition(" - ")
        if fields.split(" ")[2] == number:
            return more.split(" ")[0]
    return ""


def reserve(fd: int, length: int) -> None:
    """Give the first ``length`` bytes of a file their space on disk.

    The bytes in the file stay as they are.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, length)
        return
    for start in range(0, length, BLOCK):
        if os.pread(fd, 1, start) in (b"", b"\0"):
            os.pwrite(fd, b"\0", start)
    if os.fstat(fd).st_size < length:
        os.pwrite(fd, b"\0", length - 1)


def sync(fd: int) -> None:
    """Make a file, or the names in a directory, durable in a power cut.

    On macOS ``fsync`` leaves data in the memory of the disk. Some of its file systems
    know no other way.
    """
    if hasattr(fcntl, "F_FULLFSYNC"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
    os.fsync(fd)


def sync_data(fd: int) -> None:
    """Make the content of a file durable, if possible without its times."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        sync(fd)


# Memory


def process_memory() -> int:
    """Return how many bytes of memory this process uses."""
    try:
        fields = Path("/proc/self/statm").read_text("ascii").split()
    except FileNotFoundError:
        import psutil

        return int(psutil.Process().memory_info().rss)
    return int(fields[1]) * resource.getpagesize()


def size_of_memory() -> int:
    """Return the bytes of memory of this machine; no file is read."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_of_machine() -> tuple[int, int]:
    """Return the bytes of memory of this machine, and how many are free for use."""
    total = size_of_memory()
    try:
        _, figures = Path("/proc/meminfo").read_text("ascii").split("MemAvailable:")
    except FileNotFoundError:
        import psutil

        return total, int(psutil.virtual_memory().available)
    return total, int(figures.split()[0]) << 10


def memory_of_group() -> int | None:
    """Return the bytes of memory that the control group allows.

    A group that cannot be read, or is not there, sets no limit.
    """
    try:
        limit = GROUP.read_text("ascii").strip()
    except OSError:
        return None
    return None if limit == "max" else int(limit)
