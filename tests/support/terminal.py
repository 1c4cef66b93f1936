"""``bloomdupe top`` in a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

COLOUR = re.compile(r"\x1b\[[\d;]*m")


class Terminal:
    """``bloomdupe top`` of a store in a terminal of its own, 24 lines high."""

    def __init__(
        self, store: str, columns: int, *options: str, **environment: str
    ) -> None:
        self._end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bloomdupe.cli.main", "top", store, *options],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": "xterm-256color", **environment},
        )
        self._before = termios.tcgetattr(other)
        self._other = other
        self.shown = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in COLOUR.sub("", self.shown):
            assert time.monotonic() < deadline, self.shown
            if select.select([self._end], [], [], 0.1)[0]:
                self.shown += os.read(self._end, 1 << 16).decode()

    def press(self, key: str) -> None:
        os.write(self._end, key.encode())

    def end(self) -> int:
        code = self.process.wait(timeout=60)
        assert termios.tcgetattr(self._other) == self._before
        os.close(self._end)
        os.close(self._other)
        return code
