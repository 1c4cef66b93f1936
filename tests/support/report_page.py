"""The page that ``bloomdupe report`` writes, read."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The contents of a page: its texts, and the titles of its charts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.charts: dict[str, int] = {}
        self.scripts: list[str | None] = []
        self.texts: list[str] = []
        self._chart = ""
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._in = tag
        if tag == "figure":
            self._chart = given["aria-label"] or ""
            self.charts[self._chart] = 0
        if tag in ("path", "use") and self._chart:
            self.charts[self._chart] += 1
        if tag == "script":
            self.scripts.append(given.get("type"))

    def handle_data(self, data: str) -> None:
        if self._in != "script":
            self.texts.append(data.strip())
