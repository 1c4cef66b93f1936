"""strace: see the system calls of a worker, or meddle with one of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker import command

if TYPE_CHECKING:
    from pathlib import Path

    from world import World

WRITES = (
    "pwrite64", "pwritev", "writev", "ftruncate", "fallocate", "rename", "renameat2",
    "mkdir", "unlink", "unlinkat", "rmdir", "fsync", "fdatasync", "msync",
)  # fmt: skip
"""Calls that change files or make changes durable; ``write`` is for the report."""
DEADLINE = 60.0  # seconds; only a broken test gets there

LINE = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (-?\w+).*")


@dataclass(frozen=True)
class Call:
    """A system call in the log."""

    name: str
    arguments: str
    result: str
    nth: int
    """Of its name in this process, from 1: what strace's ``when=`` counts."""


@dataclass(frozen=True)
class Run:
    """What a worker said, how it ended, and what it called."""

    report: bytes
    errors: str
    status: int
    calls: list[Call]


def missing() -> str | None:
    """Say why it cannot be used here."""
    return None if shutil.which("strace") else "needs strace"


def run(
    log: Path,
    path: Path,
    world: World,
    batch: int,
    *worker_options: str,
    trace: tuple[str, ...] = WRITES,
    strace_options: tuple[str, ...] = (),
) -> Run:
    """Run a worker under strace, all calls named in ``trace`` logged."""
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={','.join(trace)}",
         "-e", "signal=none", *strace_options,
         *command(path, world, batch, *worker_options)],
        capture_output=True,
        check=False,
        timeout=DEADLINE,
        # The same calls for the same arguments.
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    calls = parse(log.read_text("ascii", "replace"))
    return Run(done.stdout, done.stderr.decode(), done.returncode, calls)


def parse(log: str) -> list[Call]:
    """Read strace's log; a call that never returned has the result ``?``."""
    counts: Counter[str] = Counter()
    calls = []
    for line in log.splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        name, arguments, result = match.groups()
        counts[name] += 1
        calls.append(Call(name, arguments, result, counts[name]))
    return calls


def inject(call: Call, what: str) -> tuple[str, ...]:
    """Options that do something to one call; ``what`` as in ``error=EIO``."""
    return ("-e", f"inject={call.name}:{what}:when={call.nth}")
