"""A site whose graph is known, served by the parent of the crawls that are stopped.

The log is the server's: who is killed cannot falsify it.

``/0`` to ``/20`` are a tree with a few links across. The other pages are named by
what they do: see the functions below.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from support.delays import dawdle

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

PAGES = 21
"""In the tree."""
FAN = 4
"""Links from a page of the tree to its children."""
CHAIN = 15
"""Pages in a chain."""
STAR = 15
"""Pages around a star."""
DELAY = 0.004
"""Seconds that an answer takes."""
QUIET = 5.0
"""Seconds after which connections of a dead process are gone, at the latest."""


@dataclass(frozen=True)
class Visit:
    """A request, as the server has seen it."""

    time: float
    """Of the monotonic clock."""
    run: int
    """Of the crawl: 0 for the first."""
    what: str
    """Path with query; before it the method, unless it is GET."""


@dataclass(frozen=True)
class Asked:
    """What a page knows of the request."""

    base: str
    method: str
    path: str
    query: dict[str, str]
    cookies: str
    body: str
    visits: int
    """How often it was asked, this time included."""

    @property
    def number(self) -> int:
        return int(self.path.rpartition("/")[2])


@dataclass(frozen=True)
class Answer:
    body: str | bytes = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    type: str = "text/html; charset=utf-8"


Page: TypeAlias = "Callable[[Asked], Answer]"


def links_of(number: int) -> list[int]:
    """Return the links of a page of the tree; none leads back to the first page."""
    children = [FAN * number + n for n in range(1, FAN + 1)]
    across = [(7 * number + 3) % (PAGES - 1) + 1, (5 * number) % (PAGES - 1) + 1]
    return [link for link in (*children, *across) if 0 < link < PAGES]


def html(paths: list[str], text: str = "") -> Answer:
    links = "".join(f'<a href="{path}">{path}</a>\n' for path in paths)
    return Answer(f"<html><body><p>{text}</p>\n{links}</body></html>")


def tree(asked: Asked) -> Answer:
    return html([f"/{link}" for link in links_of(asked.number)])


def detail(_: Asked) -> Answer:
    """Leads nowhere."""
    return html([], "detail")


def chain(asked: Asked) -> Answer:
    following = asked.number + 1
    return html([f"/chain/{following}"] if following < CHAIN else [])


def star(_: Asked) -> Answer:
    return html([f"/detail/{number}" for number in range(STAR)])


def poll(asked: Asked) -> Answer:
    """Is ready when it is asked for the third time."""
    ready = asked.visits >= 3
    return Answer(json.dumps({"ready": ready}), type="application/json")


def moved(asked: Asked) -> Answer:
    return Answer(status=302, headers={"Location": f"/detail/{asked.number}"})


def refresh(asked: Asked) -> Answer:
    place = f"/detail/{asked.number}"
    return Answer(f'<meta http-equiv="refresh" content="0; url={place}">')


def flaky(asked: Asked) -> Answer:
    """Fails when it is asked for the first time."""
    return Answer(status=503) if asked.visits == 1 else detail(asked)


def soft(asked: Asked) -> Answer:
    """Says so instead, with status 200."""
    return html([], "try again") if asked.visits == 1 else detail(asked)


def missing(_: Asked) -> Answer:
    return Answer("nothing here", 404)


def broken(_: Asked) -> Answer:
    return Answer(status=500)


def echo(asked: Asked) -> Answer:
    said = {"method": asked.method, "body": asked.body, "cookies": asked.cookies}
    return Answer(json.dumps(said), type="application/json")


def login(asked: Asked) -> Answer:
    """Takes a name in the query, and says it in a cookie."""
    name = asked.query["name"]
    answer = html(["/private"], "welcome")
    return Answer(answer.body, headers={"Set-Cookie": f"user={name}; Path=/"})


def private(asked: Asked) -> Answer:
    user = re.search(r"user=(\w+)", asked.cookies)
    return html([], user[1] if user else "nobody")


def form(asked: Asked) -> Answer:
    return Answer(
        '<form action="/echo" method="post">'
        f'<input type="hidden" name="token" value="t{asked.number}">'
        '<input name="q"></form>'
    )


def file(asked: Asked) -> Answer:
    return Answer(b"%d " % asked.number * 1000, type="application/octet-stream")


def sitemap(asked: Asked) -> Answer:
    pages = "".join(
        f"<url><loc>{asked.base}/detail/{n}</loc></url>" for n in range(STAR)
    )
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return Answer(f'<urlset xmlns="{space}">{pages}</urlset>', type="text/xml")


def sitemap_index(asked: Asked) -> Answer:
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    one = f"<sitemap><loc>{asked.base}/sitemap.xml</loc></sitemap>"
    return Answer(
        f'<sitemapindex xmlns="{space}">{one}</sitemapindex>', type="text/xml"
    )


def feed_xml(_: Asked) -> Answer:
    items = "".join(f"<item><id>{n}</id></item>" for n in range(STAR))
    return Answer(f"<rss>{items}</rss>", type="text/xml")


def table_csv(_: Asked) -> Answer:
    rows = "".join(f"{n},name {n}\n" for n in range(STAR))
    return Answer(f"id,name\n{rows}", type="text/csv")


def robots(_: Asked) -> Answer:
    return Answer("User-agent: *\nDisallow: /2\n", type="text/plain")


NAMED: dict[str, Page] = {
    "broken": broken,
    "chain": chain,
    "detail": detail,
    "echo": echo,
    "feed.xml": feed_xml,
    "file": file,
    "flaky": flaky,
    "form": form,
    "login": login,
    "missing": missing,
    "moved": moved,
    "poll": poll,
    "private": private,
    "refresh": refresh,
    "robots.txt": robots,
    "sitemap.xml": sitemap,
    "sitemap_index.xml": sitemap_index,
    "soft": soft,
    "star": star,
    "table.csv": table_csv,
}
"""By the first part of the path."""


class KnownSite(ThreadingHTTPServer):
    """Serves the pages, keeps the log, and kills a crawl when it is told to."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.base = f"http://127.0.0.1:{self.server_port}"
        self.log: list[Visit] = []
        self.run = 0
        self._count = threading.Condition()
        self._connections = 0
        self._last: Any = None
        self._asked: Counter[str] = Counter()
        self._kill_at: int | None = None
        self._victim: int | None = None
        self._thread = threading.Thread(
            target=self.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def begin_run(self, run: int, kill_at: int | None = None) -> None:
        """Count for another run; ``kill_at`` is the request that it will not see
        answered."""
        with self._count:
            self.run = run
            self._kill_at = kill_at
            self._victim = None

    def set_victim(self, pid: int) -> None:
        """Say which process crawls."""
        with self._count:
            self._victim = pid
            self._count.notify_all()

    def wait_until_quiet(self) -> None:
        """Wait until no connection of the last run is left.

        One that was made before ours has been taken before it.
        """
        with socket.create_connection(("127.0.0.1", self.server_port)) as last:
            address = last.getsockname()
            with self._count:
                taken = self._count.wait_for(lambda: self._last == address, QUIET)
        with self._count:
            assert taken
            assert self._count.wait_for(lambda: not self._connections, QUIET)

    def visits(self, run: int | None = None) -> Counter[str]:
        return Counter(v.what for v in self.log if run is None or v.run == run)

    def note(self, what: str) -> int:
        """Log a request; return how often it was asked."""
        with self._count:
            self.log.append(Visit(time.monotonic(), self.run, what))
            self._asked[what] += 1
            visits = self._asked[what]
            if self._kill_at is not None:
                self._kill_at -= 1
                if self._kill_at == 0:
                    self._count.wait_for(lambda: self._victim is not None, QUIET)
                    assert self._victim is not None
                    os.kill(self._victim, signal.SIGKILL)
            return visits

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._count:
            self._connections += 1
            self._last = client_address
            self._count.notify_all()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._count:
            self._connections -= 1
            self._count.notify_all()

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, *_: Any) -> None:
        """Say nothing: the other side was killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body waits 40 ms for the head
    wbufsize = -1
    server: KnownSite

    def respond(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size).decode()
        what = self.path if self.command == "GET" else f"{self.command} {self.path}"
        if body:
            what += f" {body}"
        visits = self.server.note(what)
        time.sleep(DELAY)
        dawdle()
        url = urlsplit(self.path)
        name = url.path.split("/")[1]
        page = tree if name.isdigit() else NAMED.get(name, missing)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        cookies = self.headers.get("Cookie", "")
        answer = page(
            Asked(
                self.server.base, self.command, url.path, query, cookies, body, visits
            )
        )
        data = answer.body.encode() if isinstance(answer.body, str) else answer.body
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = respond  # noqa: N815 - the names that http.server looks for
    do_POST = respond  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass
