"""Site: the web server of a test, with its log and a gate.

A page is a text, an :class:`Answer`, a function of the :class:`Visit` that returns one
of these, or a list of them: one for each visit in turn, the last one for good. The text
``-> URL`` redirects. ``None`` closes the connection without an answer.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from support.waiting import DEADLINE

if TYPE_CHECKING:
    from typing_extensions import Self


HOSTS = (
    "localhost", "127.1", "127.0.1", "0x7f.1", "0177.1", "0x7f.0.0.1", "0177.0.0.1",
    "127.0.0.0x1", "127.0.0.01", "2130706433", "0x7f000001", "017700000001",
)  # fmt: skip
"""Other names of this machine, which are hosts of their own to a crawl."""


def on_host(url: str, number: int) -> str:
    """Return a URL of a site as one of another host."""
    return url.replace("127.0.0.1", HOSTS[number % len(HOSTS)])


@dataclass(frozen=True)
class Answer:
    body: str | bytes = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    """A ``Content-Type`` here takes the place of ``text/html``."""


@dataclass(frozen=True)
class Visit:
    """A request, as the server has seen it."""

    base: str
    """The URL of the site, without last slash."""
    method: str
    path: str
    """With the query."""
    body: str
    headers: Mapping[str, str]
    number: int
    """How often the path was asked for, this time included."""
    time: float
    """Unix time."""
    clock: float
    """Of the monotonic clock, which all processes share."""

    @property
    def query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query)
        return {key: values[0] for key, values in found.items()}

    @property
    def what(self) -> str:
        """The path; before it the method, unless it is GET; behind it the body."""
        method = "" if self.method == "GET" else f"{self.method} "
        return f"{method}{self.path} {self.body}".strip()


Page: TypeAlias = (
    "str | Answer | Sequence[Page] | Callable[[Visit], str | Answer | None] | None"
)
Pages: TypeAlias = "Mapping[str, Page] | Callable[[Visit], str | Answer | None]"


def links(*paths: str) -> str:
    """Return a page with links to the paths."""
    return "".join(f"<a href='{path}'>x</a>" for path in paths)


PAGES: dict[str, Page] = {
    "/": links(*(f"/{name}" for name in "abcdef")),
    **{f"/{name}": links(f"/{name}1", "/") for name in "abcdef"},
    **{f"/{name}1": links("/a") for name in "abcdef"},
}
"""Thirteen pages in three steps; every page leads back to a known page."""


def graph(size: int, across: int = 5) -> dict[str, Page]:
    """Return ``/0`` to ``/SIZE - 1``, each of which can be reached from the first.

    None links to the first one: stock Scrapy would fetch that once more.
    """
    pages: dict[str, Page] = {}
    for number in range(size):
        far = (1 + (number * 7919 + k * 104_729) % (size - 1) for k in range(across))
        targets = {2 * number + 1, 2 * number + 2, *far}
        pages[f"/{number}"] = links(*(f"/{n}" for n in sorted(targets) if n < size))
    return pages


class Site:
    """Serves pages; ``with`` starts and ends it."""

    def __init__(self, pages: Pages, *, delay: float = 0) -> None:
        self.pages = pages
        """May be replaced while it runs."""
        self.log: list[Visit] = []
        self.waiting = 0
        """Requests that wait at the gate."""
        self._delay = delay
        self._changed = threading.Condition()
        self._asked: Counter[str] = Counter()
        self._taken = 0
        self._held: frozenset[str] | None = frozenset()
        self._left: int | None = None
        self._kill_at = 0
        self._victim: int | None = None
        self._server = _Server(self)
        self.base = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.end()
        self._thread.join()
        self._server.server_close()

    # The log

    @property
    def requested(self) -> list[str]:
        """The paths that were asked for, in order."""
        return [visit.path for visit in self.log]

    @property
    def count(self) -> Counter[str]:
        """How often each path was asked for."""
        return Counter(self.requested)

    def take(self) -> list[str]:
        """Return the paths that were asked for since the last time."""
        first, self._taken = self._taken, len(self.log)
        return self.requested[first : self._taken]

    def times(self, path: str) -> list[float]:
        """Return the Unix times of the requests for a path."""
        return [visit.time for visit in self.log if visit.path == path]

    # The gate

    def hold(self, *paths: str) -> None:
        """Let the answers to these paths wait; without paths, all answers."""
        with self._changed:
            self._held = frozenset(paths) if paths else None
            self._changed.notify_all()

    def hold_after(self, answers: int) -> None:
        """Give so many answers more, to any paths, and hold all later answers back."""
        with self._changed:
            self._held, self._left = frozenset(), answers
            self._changed.notify_all()

    @property
    def shut(self) -> bool:
        """Whether it has given all answers that ``hold_after`` has left."""
        return self._left == 0

    def release(self) -> None:
        """Give all answers that wait, and all that follow."""
        with self._changed:
            self._held, self._left = frozenset(), None
            self._changed.notify_all()
        # Or the next gate would count them.
        self.until(lambda: not self.waiting)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds that a connection or a request can change."""
        with self._changed:
            assert self._changed.wait_for(condition, DEADLINE)

    def notify(self) -> None:
        """Let those who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def until_requested(self, what: str | int) -> None:
        """Wait until a path, or so many pages in all, were asked for."""
        self.until(lambda: self.was_requested(what))

    def was_requested(self, what: str | int, since: int = 0) -> bool:
        """Whether they were asked for after so many other pages."""
        asked = self.requested[since:]
        return len(asked) >= what if isinstance(what, int) else what in asked

    # For crawls

    def kill_at(self, number: int) -> None:
        """Kill a process that is named later, before the answer to this request."""
        with self._changed:
            self._kill_at, self._victim = number, None

    def name_victim(self, pid: int) -> None:
        with self._changed:
            self._victim = pid
            self._changed.notify_all()

    def until_quiet(self) -> None:
        """Wait until all that a process has sent before its end is in the log."""
        self._server.until_quiet()

    def enter(self, visit: dict[str, Any]) -> Visit:
        """Log a request, and let it wait at the gate."""
        with self._changed:
            self._asked[visit["path"]] += 1
            seen = Visit(
                base=self.base,
                number=self._asked[visit["path"]],
                time=time.time(),
                clock=time.monotonic(),
                **visit,
            )
            self.log.append(seen)
            if self._kill_at:
                self._kill_at -= 1
                if not self._kill_at:
                    self._changed.wait_for(lambda: self._victim is not None, DEADLINE)
                    assert self._victim is not None
                    os.kill(self._victim, signal.SIGKILL)
            self.waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._may_pass(seen.path))
            self.waiting -= 1
            self._changed.notify_all()
            if self._left is not None:
                self._left -= 1
        time.sleep(self._delay)  # noqa: TID251 - slow on purpose
        return seen

    def _may_pass(self, path: str) -> bool:
        return self._held is not None and path not in self._held and self._left != 0

    def answer_to(self, visit: Visit) -> Answer | None:
        page: Page
        if callable(self.pages):
            page = self.pages(visit)
        else:
            page = self.pages.get(visit.path, Answer("", 404))
        return _answer(page, visit)


def _answer(page: Page, visit: Visit) -> Answer | None:
    if isinstance(page, str):
        redirect = re.fullmatch(r"-> (.*)", page)
        if redirect:
            return Answer("", 302, {"Location": redirect[1]})
        return Answer(page)
    if isinstance(page, Sequence):
        return _answer(page[min(visit.number, len(page)) - 1], visit)
    if callable(page):
        return _answer(page(visit), visit)
    return page


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # With 5, the default, Linux drops new connections while five wait on a busy
    # machine: after a second or more the crawler sees a failed download, and retries.
    request_queue_size = 1024

    def __init__(self, site: Site) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.site = site
        self._ended = False
        self._open: dict[Any, Any] = {}
        """The addresses of the clients, by the sockets of their connections."""

    def serve(self) -> None:
        """Take connections, up to the last one."""
        while not self._ended:
            self.handle_request()

    def end(self) -> None:
        self._ended = True
        socket.create_connection(("127.0.0.1", self.server_port)).close()

    def until_quiet(self) -> None:
        """Wait until no connection is left that may bring another request.

        One that was made before ours has been taken before it.
        """
        with socket.create_connection(("127.0.0.1", self.server_port)) as last:
            address = last.getsockname()
            self.site.until(lambda: address in [*self._open.values()])
        self.site.until(lambda: len(self._open) <= self.site.waiting)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open[request] = client_address
        self.site.notify()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._open.pop(request, None)
        self.site.notify()

    def handle_error(self, *_: Any) -> None:
        """Say nothing: crawlers are killed in the middle of a response."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body waits 40 ms for the head
    wbufsize = -1
    server: _Server

    def respond(self) -> None:
        site = self.server.site
        size = int(self.headers.get("Content-Length", 0))
        visit = site.enter({
            "method": self.command,
            "path": self.path,
            "body": self.rfile.read(size).decode("latin-1"),
            "headers": dict(self.headers),
        })  # fmt: skip
        self._send(site.answer_to(visit))

    def _send(self, answer: Answer | None) -> None:
        if answer is None:
            self.close_connection = True
            return
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        headers = {"Content-Type": "text/html; charset=utf-8", **answer.headers}
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        if answer.status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and answer.status != 304:
            self.wfile.write(body)

    do_GET = respond  # noqa: N815 - the names that http.server looks for
    do_HEAD = respond  # noqa: N815 - a name of http.server
    do_POST = respond  # noqa: N815 - a name of http.server

    def log_message(self, *_: Any) -> None:
        pass
