"""The machine and versions of a benchmark, and the kernel's counts for this process."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

PACKAGES = ("bloomdupe", "mmh3", "bitarray", "lmdb")
RIVALS = (
    "pybloomfiltermmap3",
    "rbloom",
    "pybloom-live",
    "bloom-filter2",
    "fastbloom-rs",
)


def describe(*packages: str) -> dict[str, str]:
    """Machine, Python and the version of every package that takes part."""
    return {
        "CPU": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{available_memory() / 2**30:.0f} GiB available",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: version(name) for name in PACKAGES + packages},
    }


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from this checkout" if package == "bloomdupe" else "ABSENT"


def _field(file: str, name: str) -> str:
    for line in Path(file).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return ""


def available_memory() -> int:
    return 1024 * int(_field("/proc/meminfo", "MemAvailable").split()[0])


def resident() -> tuple[int, int]:
    """RssAnon and VmRSS of this process in bytes."""
    gc.collect()
    status = "/proc/self/status"
    anonymous, everything = (
        1024 * int(_field(status, name).split()[0]) for name in ("RssAnon", "VmRSS")
    )
    return anonymous, everything


def written() -> tuple[int, int]:
    """write_bytes (sent to the disk) and wchar (asked to write) of this process."""
    file = "/proc/self/io"
    return int(_field(file, "write_bytes")), int(_field(file, "wchar"))


def device_written(directory: Path) -> int | None:
    """Bytes that the disk under a directory has written, for all programs.

    None if the kernel does not tell (network and layered file systems).
    """
    number = directory.stat().st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    file = Path("/sys/dev/block") / name / "stat"
    return 512 * int(file.read_text().split()[6]) if file.exists() else None


def file_system(directory: Path) -> str:
    """Type of the file system that holds a directory."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        mount, name = line.split()[1:3]
        inside = directory.resolve().is_relative_to(mount)
        if inside and len(mount) >= len(best):
            best, kind = mount, name
    return kind


def sync_times(directory: Path, rounds: int) -> list[float]:
    """Seconds that this disk takes to append 4 kB and sync them, each time."""
    times = []
    with (directory / "probe").open("wb") as file:
        for _ in range(rounds):
            file.write(bytes(4096))
            file.flush()
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return times


def urls(start: int, stop: int, kind: bytes = b"www") -> list[bytes]:
    """Distinct 70-byte keys like URLs; ``kind`` has three letters."""
    return [
        b"https://%b.shop-%05d.example/catalogue/%04d/item/page-%012d.html"
        % (kind, number % 9973, number % 997, number)
        for number in range(start, stop)
    ]


def chunks(
    start: int, stop: int, kind: bytes = b"www", size: int = 250_000
) -> Iterator[list[bytes]]:
    """Like :func:`urls`, a list of ``size`` at a time."""
    for begin in range(start, stop, size):
        yield urls(begin, min(stop, begin + size), kind)


class Clock:
    """CPU and wall time of some calls, in nanoseconds per key."""

    def __init__(self) -> None:
        self.cpu: list[float] = []
        self.wall: list[float] = []
        self.begin()

    def begin(self) -> None:
        """Begin a round."""
        self._keys, self._cpu, self._wall = 0, 0.0, 0.0

    def run(self, call: Callable[[Sequence[bytes]], object], keys: list[bytes]) -> None:
        """Time one call within the round."""
        wall, cpu = time.perf_counter(), time.process_time()
        call(keys)
        self._cpu += time.process_time() - cpu
        self._wall += time.perf_counter() - wall
        self._keys += len(keys)

    def end(self) -> None:
        """End the round."""
        self.cpu.append(self._cpu / self._keys * 1e9)
        self.wall.append(self._wall / self._keys * 1e9)

    @property
    def median(self) -> float:
        """CPU time, which is steadier than wall time on a shared machine."""
        return statistics.median(self.cpu)

    def cells(self) -> list[str]:
        """CPU median, CPU range, wall median."""
        low, high = min(self.cpu), max(self.cpu)
        return [
            f"{self.median:,.0f}",
            f"{low:,.0f}-{high:,.0f}",
            f"{statistics.median(self.wall):,.0f}",
        ]
