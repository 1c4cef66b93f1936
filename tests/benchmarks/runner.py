"""What benchmarks print: machine, tables, bounds."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
# An installed bloomdupe comes first; without one, the checkout is measured.
sys.path += [str(HERE.parent), str(HERE.parents[1])]

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = Sequence[Sequence[str]]

PACKAGES = ("bloomdupe", "mmh3", "bitarray", "lmdb")


def describe(*packages: str) -> dict[str, str]:
    """Machine, Python and the version of every package that takes part."""
    memory = int(field("/proc/meminfo", "MemAvailable").split()[0])
    return {
        "CPU": field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory / 2**20:.0f} GiB available",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: _version(name) for name in PACKAGES + packages},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from this checkout" if package == "bloomdupe" else "ABSENT"


def field(file: str, name: str) -> str:
    """Return what a file of the kernel says after a name."""
    for line in Path(file).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return ""


class Report:
    """Prints tables, and remembers which bounds were missed."""

    def __init__(self, machine: dict[str, str]) -> None:
        self._missed: list[str] = []
        for name, value in machine.items():
            print(f"* {name}: {value}")

    def bound(self, what: str, value: float, limit: float, form: str = ".2f") -> str:
        """Return ``value`` as text, with its bound and whether it is kept."""
        if value > limit:
            self._missed.append(f"{what}: {value:{form}}, bound {limit:{form}}")
        kept = "ok" if value <= limit else "MISSED"
        return f"{value:{form}} (≤ {limit:{form}} {kept})"

    def table(self, title: str, note: str, header: Sequence[str], rows: Rows) -> None:
        """Print a table under a heading and a note on how it was measured."""
        print(f"\n### {title}\n\n{note}\n")
        for row in (header, ["---"] * len(header), *rows):
            print(f"| {' | '.join(row)} |", flush=True)

    def finish(self) -> int:
        """Print the missed goals; return the exit code."""
        for line in self._missed:
            print(f"MISSED: {line}")
        return int(bool(self._missed))
