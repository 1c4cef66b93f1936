"""Forks: real processes that need not import Scrapy first, several at a time.

The other side is ``fork_server.py``.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
SOCKETS = "BLOOMDUPE_TEST_FORKS"
"""In the environment: the folder with the sockets of the servers."""
SEEDS = ("1", "2")
"""For the hashes of texts; a server each."""
DEADLINE = 600.0
"""Seconds that a run may take; only a broken one does."""


class Child:
    """A process that a fork server has started: see ``child()`` in ``fork_server.py``.

    It is not reaped before the caller waits for it, so its number stays its own.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        servers = forks()
        servers.rotate()
        self._server = servers[0]
        (self.pid,) = _ask(self._server, task)
        self._handle = os.pidfd_open(self.pid)
        self._status: int | None = None
        self._log = Path(task["log"])

    @property
    def log(self) -> str:
        """The messages of the process so far."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    @property
    def alive(self) -> bool:
        return not self._ends_within(0)

    def _ends_within(self, seconds: float) -> bool:
        if self._status is not None:
            return True
        return bool(select.select([self._handle], [], [], seconds)[0])

    def send(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self) -> int:
        """Wait for its end, which has to come; return its exit status."""
        late = not self._ends_within(DEADLINE)
        if late:
            self.send(signal.SIGKILL)
        if self._status is None:
            (self._status,) = _ask(self._server, {"wait": self.pid})
            os.close(self._handle)
        assert not late, f"no end within {DEADLINE} s: {self.log}"
        return self._status


@cache
def forks() -> deque[Path]:
    """Return the sockets of the fork servers, which take turns.

    Each server hashes texts in its own way, as every process does that is begun anew.
    So the next run of a crawl goes through its sets in another order.

    All processes of a run of the tests share the servers. The first process that calls
    this starts them. Those that it starts later find them by the environment.
    """
    if SOCKETS not in os.environ:
        os.environ[SOCKETS] = _start_servers()
    return deque(Path(os.environ[SOCKETS], seed) for seed in SEEDS)


def _ask(server: Path, task: dict[str, Any]) -> list[Any]:
    """Give a server a task; return its answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server))
        with connection.makefile("rw") as stream:
            print(json.dumps(task), file=stream, flush=True)
            answer = stream.readline()
    assert answer, "the fork server has died"
    told: list[Any] = json.loads(answer)
    return told


def forked(function: Callable[[], object]) -> BaseProcess:
    """Start a fork of this process that calls a function."""
    process = get_context("fork").Process(target=function)
    process.start()
    return process


def _start_servers() -> str:
    """Start the servers; return the folder of their sockets."""
    folder = tempfile.mkdtemp(prefix="forks-")
    processes = [_start_server(Path(folder, seed), seed) for seed in SEEDS]
    atexit.register(_end_servers, os.getpid(), folder, processes)
    return folder


def _start_server(path: Path, seed: str) -> subprocess.Popen[bytes]:
    found = [
        str(TESTS),
        str(TESTS / "idioms"),
        *os.environ.get("PYTHONPATH", "").split(os.pathsep),
    ]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        number = listening.fileno()
        server = Path(__file__).with_name("fork_server.py")
        return subprocess.Popen(
            [sys.executable, str(server), str(number)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, found)),
                "PYTHONHASHSEED": seed,
            },
            stdin=subprocess.PIPE,
            pass_fds=[number],
        )


def _end_servers(
    owner: int, folder: str, processes: list[subprocess.Popen[bytes]]
) -> None:
    if os.getpid() != owner:  # but a fork of it
        return
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    for process in processes:
        process.wait()
    shutil.rmtree(folder)
