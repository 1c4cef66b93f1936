"""Forks: real processes that need not import Scrapy first, several at a time.

The other side is ``fork_server.py``.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.delays import dawdle

if TYPE_CHECKING:
    from collections.abc import Callable

TESTS = Path(__file__).parents[1]
DEADLINE = 120.0
"""Seconds that a run may take; only a broken one does."""


class Child:
    """A process that a fork server has started.

    It is not reaped before somebody waits for it, so its number stays its own.
    """

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._handle = os.pidfd_open(pid)
        self._status: int | None = None

    def has_ended(self, seconds: float = 0) -> bool:
        """Return whether it has ended, or does within so many seconds."""
        if self._status is not None:
            return True
        return bool(select.select([self._handle], [], [], seconds)[0])

    def send(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds: float = DEADLINE) -> int | None:
        """Return its exit status; None if it did not end in time."""
        if self._status is None:
            if not self.has_ended(seconds):
                return None
            self._status = int(self._server.ask({"wait": self.pid}))
            os.close(self._handle)
        return self._status

    def kill(self) -> int:
        """End it at once, if it has not ended; return its exit status."""
        self.send(signal.SIGKILL)
        status = self.wait()
        assert status is not None
        return status


class Forks:
    """Two fork servers, which take turns.

    Each hashes texts in its own way, as every process does that is begun anew. So the
    next run of a crawl goes through its sets in another order. One alone, where that
    does not matter, is there sooner.
    """

    def __init__(self, seeds: tuple[str, ...] = ("1", "2")) -> None:
        self._servers = [ForkServer(seed) for seed in seeds]

    def start(self, task: dict[str, Any]) -> Child:
        """Start a task: see ``child()`` in ``fork_server.py``."""
        dawdle()
        self._servers.reverse()
        server = self._servers[0]
        return Child(server, int(server.ask(task)))

    def run(
        self, task: dict[str, Any], began: Callable[[int], None]
    ) -> tuple[int, bool]:
        """Run a task; return its exit status and whether it was too late.

        ``began`` is told its process ID.
        """
        child = self.start(task)
        began(child.pid)
        status = child.wait()
        if status is None:
            return child.kill(), True
        return status, False

    def close(self) -> None:
        for server in self._servers:
            server.close()


@cache
def forks() -> Forks:
    """Return the fork servers that all tests of this process share."""
    shared = Forks()
    atexit.register(shared.close)
    return shared


class ForkServer:
    """A ``fork_server.py`` with a seed for the hashes of texts."""

    def __init__(self, seed: str) -> None:
        path = [
            str(TESTS),
            str(TESTS / "idioms"),
            *os.environ.get("PYTHONPATH", "").split(os.pathsep),
        ]
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, path)),
                "PYTHONHASHSEED": seed,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, task: dict[str, Any]) -> str:
        """Give it a task; return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the fork server has died"
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
