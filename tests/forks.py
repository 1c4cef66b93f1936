"""Forks: real crawls in processes that need not import Scrapy first."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
DEADLINE = 120.0
"""Seconds that a run may take; only a broken one does."""


@cache
def shared_forks() -> Forks:
    """Return those that the tests of this process share."""
    forks = Forks()
    atexit.register(forks.close)
    return forks


class Forks:
    """The other side of ``fork_server.py``: two of them, which take turns.

    Each hashes texts in its own way, as every process does that is begun anew. So the
    next run of a crawl goes through its sets in another order. One alone, where that
    does not matter, is there sooner.
    """

    def __init__(self, seeds: tuple[str, ...] = ("1", "2")) -> None:
        self._servers = [ForkServer(seed) for seed in seeds]

    def run(
        self, task: dict[str, Any], began: Callable[[int], None]
    ) -> tuple[int, bool]:
        """Run a task; return its exit status and whether it was too late.

        ``began`` is told its process ID.
        """
        self._servers.reverse()
        return self._servers[0].run(task, began)

    def close(self) -> None:
        for server in self._servers:
            server.close()


class ForkServer:
    """A ``fork_server.py`` with a seed for the hashes of texts."""

    def __init__(self, seed: str) -> None:
        path = [
            str(HERE / "idioms"),
            *os.environ.get("PYTHONPATH", "").split(os.pathsep),
        ]
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "fork_server.py")],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, path)),
                "PYTHONHASHSEED": seed,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._line(DEADLINE) == "ready"

    def _line(self, seconds: float) -> str | None:
        """Read a line; None if there is none in time."""
        out = self._process.stdout
        assert out is not None
        if not select.select([out], [], [], seconds)[0]:
            return None
        # Not more than the line, or select() would not see the next one.
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(out.fileno(), 1)
            assert piece, "the fork server has died"
            line += piece
        return line.decode().strip()

    def run(
        self, task: dict[str, Any], began: Callable[[int], None]
    ) -> tuple[int, bool]:
        """Run a task; return its exit status and whether it was too late."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task).encode() + b"\n")
        self._process.stdin.flush()
        pid = int(self._line(DEADLINE) or 0)
        began(pid)
        status = self._line(DEADLINE)
        late = status is None
        if late:
            os.kill(pid, signal.SIGKILL)
            status = self._line(DEADLINE)
        assert status is not None
        return int(status), late

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
