"""A site for crawls that are disturbed: in a process of its own, with a gate.

The gate lets a crawl go so far and no further: answers past it wait. So faults are
spread over the whole of it, however fast the machine is. The log is the server's.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from random import Random
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from support.delays import dawdle
from support.page_server import Server
from typing_extensions import Self

if TYPE_CHECKING:
    from pathlib import Path

DELAY = 0.004
"""Seconds that an answer takes."""
OPEN = 1 << 40
FAR = 3
"""Links of a page to others than its two children."""


class Visit(NamedTuple):
    """A request, as the server has seen it."""

    time: float
    """Unix time."""
    by: str
    """Of the crawl or the worker: its ``User-Agent``."""
    what: str
    """Path with query; before it the method, unless it is GET; behind it the body."""


class Answer(NamedTuple):
    status: int
    body: str = ""
    location: str = ""


class Site:
    """The pages: ``/0`` to ``/SIZE - 1`` link to each other, ``/0`` to all of them.

    The others are named by what they do. ``/flaky/N`` fails when it is asked for the
    first time, ``/broken/N`` always, ``/moved/N`` leads to one of a few others.
    """

    def __init__(self, seed: int, size: int, far: int = FAR) -> None:
        self.size = size
        rng = Random(seed)
        self._far = [[rng.randrange(1, size) for _ in range(far)] for _ in range(size)]
        self._asked = Counter[str]()

    def links(self, number: int) -> list[int]:
        links = {2 * number + 1, 2 * number + 2, *self._far[number]}
        return sorted(link for link in links if link < self.size)

    def answer(self, what: str, path: str) -> Answer:
        self._asked[what] += 1
        name, _, rest = path[1:].partition("/")
        if name.isdigit():
            links = self.links(int(name))
            return Answer(200, "".join(f"<a href='/{link}'>x</a>" for link in links))
        if name == "moved":
            return Answer(302, location=f"/there/{int(rest) % 5}")
        if name == "broken" or (name == "flaky" and self._asked[what] == 1):
            return Answer(503)
        if name == "missing":
            return Answer(404)
        return Answer(200, "more")


class Gate:
    """Counts requests, and lets answers wait that are too many."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._allowed = 0

    def arrive(self) -> int:
        with self._changed:
            self._count += 1
            return self._count

    def wait(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: number <= self._allowed)

    def allow(self, count: int) -> None:
        with self._changed:
            self._allowed = count
            self._changed.notify_all()


class GatedSite:
    """The process that serves a :class:`Site`; used with ``with``."""

    def __init__(self, site: Site, log: Path) -> None:
        self._log = log
        self._handler = _handler(site, log)
        self._server = Server(("127.0.0.1", 0), self._handler)
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._log.touch()
        source, self._orders = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.close(self._orders)
                self._serve(source)
            finally:
                os._exit(1)
        os.close(source)
        os.close(self._handler.log)
        self._server.server_close()
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._orders)

    def _serve(self, source: int) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        with os.fdopen(source) as orders:
            for line in orders:
                self._handler.gate.allow(int(line))

    def allow(self, count: int = OPEN) -> None:
        """Let the site answer so many requests in all."""
        os.write(self._orders, b"%d\n" % count)

    @property
    def visits(self) -> list[Visit]:
        """Return what was asked for, in order."""
        lines = (line.split(" ", 2) for line in self._log.read_text().splitlines())
        return [Visit(float(time), by, what) for time, by, what in lines]

    @property
    def count(self) -> int:
        """How many requests there were."""
        return self._log.read_bytes().count(b"\n")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body waits 40 ms for the head
    wbufsize = -1
    gate: Gate
    site: Site
    log: int

    def respond(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size).decode()
        what = self.path if self.command == "GET" else f"{self.command} {self.path}"
        what = f"{what} {body}".strip()
        line = f"{time.time():.6f} {self.headers['User-Agent']} {what}\n"
        os.write(self.log, line.encode())
        number = self.gate.arrive()
        time.sleep(DELAY)
        dawdle()
        self.gate.wait(number)
        answer = self.site.answer(what, urlsplit(self.path).path)
        self.send_response(answer.status)
        if answer.location:
            self.send_header("Location", answer.location)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body.encode())

    do_GET = respond  # noqa: N815 - the names that http.server looks for
    do_POST = respond  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


def _handler(site_: Site, log_: Path) -> type[_Handler]:
    class Handler(_Handler):
        gate = Gate()
        site = site_
        log = os.open(log_, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    return Handler
