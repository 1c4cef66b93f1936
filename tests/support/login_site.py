"""A site with a login: two accounts, each with pages that nobody else gets to see."""

from __future__ import annotations

import http.server
import secrets
import threading
from collections import Counter
from contextlib import contextmanager
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from support.page_server import Server, running

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNTS = ("ann", "bob")
PAGES = 60
"""Of each account; page n links to 2n + 1 and 2n + 2."""


class LoginSite:
    """The server's log, and a gate that keeps the answers to pages back."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: Counter[str] = Counter()
        """Pages asked for, with a valid session or without."""
        self.turned_away = 0
        """Pages answered with the login page."""
        self.strangers = 0
        """Logins of clients that had no cookie yet."""
        self.out_of_order = False
        """Whether pages are answered with 503."""
        self.sessions: dict[str, str] = {}
        """Accounts by the values of their cookies."""
        self._changed = threading.Condition()
        self._most: int | None = None
        self._answered = 0

    def close_gate_after(self, pages: int) -> None:
        """Answer so many pages more, and keep all others waiting."""
        with self._changed:
            self._most = self._answered + pages

    def open_gate(self) -> None:
        with self._changed:
            self._most = None
            self._changed.notify_all()

    def wait_at_gate(self, seconds: float) -> None:
        """Wait until somebody has had all that is answered."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._answered == self._most, seconds)

    def pass_gate(self) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._most is None or self._answered < self._most
            )
            self._answered += 1
            self._changed.notify_all()

    def log_in(self, account: str) -> str:
        session = f"secret-{account}-{secrets.token_hex(8)}"
        self.sessions[session] = account
        return session

    def page(self, path: str, cookies: str) -> str:
        """Return a page, or the login page without the cookie of its account."""
        account, number = path.strip("/").split("/")
        self.asked[path] += 1
        cookie = SimpleCookie(cookies).get("session")
        if cookie is None or self.sessions.get(cookie.value) != account:
            self.turned_away += 1
            return "<h1>Log in</h1>"
        children = [n for n in (2 * int(number) + 1, 2 * int(number) + 2) if n < PAGES]
        links = "".join(f"<a href='/{account}/{n}'>next</a>" for n in children)
        return f"<h1>{account} {number}</h1>{links}"


@contextmanager
def login_site() -> Iterator[LoginSite]:
    site = LoginSite()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.pass_gate()
            if site.out_of_order:
                self.answer(503, "")
                return
            self.answer(200, site.page(self.path, self.headers.get("Cookie", "")))

        def do_POST(self) -> None:
            site.strangers += "Cookie" not in self.headers
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            account = parse_qs(form)["user"][0]
            cookie = f"session={site.log_in(account)}; Path=/; HttpOnly"
            self.answer(302, "", ("Set-Cookie", cookie), ("Location", f"/{account}/0"))

        def answer(self, status: int, page: str, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            # Or a POST may be sent into a connection that closes, and fail.
            self.send_header("Connection", "close")
            for header in headers:
                self.send_header(*header)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *args: object) -> None:
            pass

    with running(Server(("127.0.0.1", 0), Handler)) as site.url:
        try:
            yield site
        finally:
            site.open_gate()
