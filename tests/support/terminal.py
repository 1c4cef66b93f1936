"""``bloomdupe top`` in a terminal of its own."""

from __future__ import annotations

import codecs
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
from collections.abc import Callable

from support.waiting import DEADLINE

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
        # A character of several bytes may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.shown = ""

    def wait_for(self, text: str) -> None:
        self._read_until(lambda: text in COLOUR.sub("", self.shown))

    def _read_until(self, condition: Callable[[], object]) -> None:
        """Read its output until something holds; unread, it would make it wait."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, self.shown
            if select.select([self._end], [], [], 0.1)[0]:
                self.shown += self._decoder.decode(os.read(self._end, 1 << 16))

    def press(self, key: str) -> None:
        os.write(self._end, key.encode())

    def end(self) -> int:
        """Wait for its end."""
        self._read_until(lambda: self.process.poll() is not None)
        assert termios.tcgetattr(self._other) == self._before
        os.close(self._end)
        os.close(self._other)
        return self.process.returncode
