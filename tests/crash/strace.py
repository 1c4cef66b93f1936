"""strace: see the system calls of a worker, or change one call.

The worker is forked and waits until strace is there. So its first calls are those of a
crawl that opens its store, and no time goes into importing Scrapy.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from job import REFUSED, crawler
from support.forks import forked
from worker import crawl
from world import World

from bloomdupe.errors import BloomDupeError

WRITES = (
    "pwrite64", "pwritev", "writev", "ftruncate", "fallocate", "rename", "renameat2",
    "mkdir", "unlink", "unlinkat", "rmdir", "fsync", "fdatasync", "msync",
)  # fmt: skip
"""Calls that change files or make changes durable; ``write`` is for the report."""
ANYBODY = (0x59616D61, -1)
"""PR_SET_PTRACER, PR_SET_PTRACER_ANY of ``prctl``."""

LINE = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (-?\w+).*")


@dataclass(frozen=True)
class Call:
    """A system call in the log."""

    name: str
    arguments: str
    result: str
    nth: int
    """Of its name in this process, from 1: the number for strace's ``when=``."""


@dataclass(frozen=True)
class Run:
    """A worker's report, its end, and its calls."""

    report: bytes
    errors: str
    status: int | None
    calls: list[Call]


def run(
    log: Path,
    path: Path,
    world: World,
    batch: int,
    *,
    trace: tuple[str, ...] = WRITES,
    strace_options: tuple[str, ...] = (),
    before: Callable[[], None] | None = None,
    **options: Any,
) -> Run:
    """Crawl in a fork under strace, all calls named in ``trace`` logged.

    ``before`` is called there first. It reports on its standard output; an error of
    ours ends it with the exit status ``REFUSED`` and one line.
    """
    crawler()
    here, there = socket.socketpair()
    reading, writing = os.pipe()
    errors = log.with_suffix(".errors")

    def work() -> None:
        here.close()
        os.close(reading)
        os.dup2(writing, 1)
        os.close(writing)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        ctypes.CDLL(None).prctl(*ANYBODY, 0, 0, 0)
        if before is not None:
            before()
        there.send(b".")
        there.recv(1)
        try:
            crawl(path, world, partial(os.write, 1), batch, **options)
        except BloomDupeError as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            sys.exit(REFUSED)

    worker = forked(work)
    os.close(writing)
    there.close()
    here.recv(1)  # now strace may come
    tracer = subprocess.Popen(
        ["strace", "-f", "-o", str(log), "-e", f"trace={','.join(trace)}",
         "-e", "signal=none", *strace_options, "-p", str(worker.pid)],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert tracer.stderr is not None
    with tracer.stderr, os.fdopen(reading, "rb") as pipe:
        said = tracer.stderr.readline()
        if b"attached" not in said:
            worker.kill()
        here.close()
        report = pipe.read()
        worker.join()
        tracer.stderr.read()
    tracer.wait()
    assert b"attached" in said, said
    calls = parse(log.read_text("ascii", "replace"))
    return Run(report, errors.read_text(), worker.exitcode, calls)


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
