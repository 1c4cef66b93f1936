"""The machine and versions of a benchmark, and the kernel's counts for this process."""

from __future__ import annotations

import gc
import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("bloomdupe", "mmh3", "bitarray", "lmdb")


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
