"""A web server for a test: a few pages, and the list of what was requested."""

from __future__ import annotations

import http.server
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def page_server(pages: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Serve a few pages; a page ``-> URL`` redirects, ``!503 Name: value`` fails.

    Yields URL and paths requested.

    In the pages ``{base}`` stands for the URL of the server, without last slash.
    """
    requested: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
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

        def log_message(self, *args: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:
            pass  # crawlers are killed in the middle of a response

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requested
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
