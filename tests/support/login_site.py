"""A site with a login: two accounts, each with pages that only it gets to see."""

from __future__ import annotations

import secrets
from collections import Counter
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from support.site import Answer, Site, links

if TYPE_CHECKING:
    from support.site import Visit

ACCOUNTS = ("ann", "bob")
PAGES = 60
"""Of each account; page n links to 2n + 1 and 2n + 2."""


class LoginSite(Site):
    def __init__(self) -> None:
        super().__init__(self._page)
        self.asked: Counter[str] = Counter()
        """Pages answered, with a valid session or without."""
        self.turned_away = 0
        """Pages answered with the login page."""
        self.strangers = 0
        """Logins of clients that had no cookie yet."""
        self.out_of_order = False
        """Whether pages are answered with 503."""
        self.sessions: dict[str, str] = {}
        """Accounts by the values of their cookies."""

    def _page(self, visit: Visit) -> Answer:
        with self._changed:  # it counts, and the server has several threads
            return self._counted(visit)

    def _counted(self, visit: Visit) -> Answer:
        if visit.method == "POST":
            self.strangers += "Cookie" not in visit.headers
            account = parse_qs(visit.body)["user"][0]
            return Answer("", 302, self._log_in(account))
        if self.out_of_order:
            return Answer("", 503)
        return Answer(self._private(visit.path, visit.headers.get("Cookie", "")))

    def _log_in(self, account: str) -> dict[str, str]:
        session = f"secret-{account}-{secrets.token_hex(8)}"
        self.sessions[session] = account
        cookie = f"session={session}; Path=/; HttpOnly"
        return {"Set-Cookie": cookie, "Location": f"/{account}/0"}

    def _private(self, path: str, cookies: str) -> str:
        """Return a page, or the login page without the cookie of its account."""
        account, number = path.strip("/").split("/")
        self.asked[path] += 1
        cookie = SimpleCookie(cookies).get("session")
        if cookie is None or self.sessions.get(cookie.value) != account:
            self.turned_away += 1
            return "<h1>Log in</h1>"
        children = [n for n in (2 * int(number) + 1, 2 * int(number) + 2) if n < PAGES]
        return f"<h1>{account} {number}</h1>" + links(
            *(f"/{account}/{child}" for child in children)
        )
