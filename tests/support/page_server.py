"""A web server for a test: a few pages, and the list of what was requested."""

from __future__ import annotations

import http.server
import re
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.delays import dawdle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Server(http.server.ThreadingHTTPServer):
    """Keeps up with crawlers that open many connections at once, and with their end."""

    # With 5, the default, Linux drops what comes while five wait on a busy machine:
    # after a second or more the crawler sees a failed download, and retries.
    request_queue_size = 1024

    def handle_error(self, *args: object) -> None:
        """Say nothing: crawlers are killed in the middle of a response."""


@contextmanager
def running(server: Server) -> Iterator[str]:
    """Let a server answer; yields its URL, without last slash."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def page_server(
    pages: Mapping[str, str], times: list[float] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Serve a few pages; a page ``-> URL`` redirects, ``!503 Name: value`` fails.

    Yields URL and paths requested. ``times`` gets the Unix time of each request.

    In the pages ``{base}`` stands for the URL of the server, without last slash.
    """
    requested: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if times is not None:
                times.append(time.time())
            requested.append(self.path)
            dawdle()
            page = pages.get(self.path)
            redirect = re.fullmatch(r"-> (.*)", page or "")
            refusal = re.fullmatch(r"!(\d+) (.*): (.*)", page or "")
            if refusal:
                self.send_response(int(refusal[1]))
                self.send_header(refusal[2], refusal[3])
            elif redirect:
                self.send_response(302)
                self.send_header("Location", redirect[1])
            else:
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
            body = (page or "").encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *args: object) -> None:
            pass

    with running(Server(("127.0.0.1", 0), Handler)) as url:
        yield url, requested
