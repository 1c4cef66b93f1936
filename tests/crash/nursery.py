"""Nursery: starts crawls, several at a time, without what Scrapy's import takes.

A process that has imported Scrapy forks for each command that it is told, as that of
``fork_server.py`` does. The other side, :class:`Nursery`, says whom to kill; who has
ended is not buried before it asks, so no other process has the number meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
PATH = [str(HERE), str(HERE.parent), str(HERE.parent / "idioms")]
sys.path += [path for path in PATH if path not in sys.path]

from support.fork_server import child, end, preload  # noqa: E402 - found by the path

if TYPE_CHECKING:
    from typing_extensions import Self


class Nursery:
    """The process, and all that it has started; used with ``with``."""

    def __enter__(self) -> Self:
        path = [*PATH, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.alive: set[int] = set()
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.alive:
            os.kill(pid, signal.SIGKILL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def start(
        self, folder: Path, command: list[str], before: str = "", **environment: str
    ) -> int:
        """Run a command in a folder, where its log lies then; return its pid.

        ``before`` names a module and a function in it, to be called there first.
        """
        task = {
            "folder": str(folder),
            "command": command,
            "environment": environment,
            "log": str(folder / "log"),
            "before": before,
        }
        pid = int(self._ask(task))
        self.alive.add(pid)
        return pid

    def ended(self) -> dict[int, int]:
        """Return the exit statuses of those that have ended since the last time."""
        ended = {int(pid): n for pid, n in json.loads(self._ask(None)).items()}
        self.alive.difference_update(ended)
        return ended

    def _ask(self, task: dict[str, Any] | None) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery has died"
        return answer


def _started(task: dict[str, Any]) -> int:
    pid = os.fork()
    if not pid:
        module, _, function = task["before"].partition(".")
        if module:
            getattr(import_module(module), function)()
        end(child(task))
    return pid


def _ended() -> dict[int, int]:
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            pid = 0
        if not pid:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def main() -> None:
    preload()
    for line in sys.stdin:
        task = json.loads(line)
        answer = json.dumps(_ended()) if task is None else str(_started(task))
        print(answer, flush=True)


if __name__ == "__main__":
    main()
