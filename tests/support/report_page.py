"""The page that ``bloomdupe report`` writes, read."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """The contents of a page: figures by name, titles of charts, the JSON in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self.charts: dict[str, int] = {}
        self.scripts: list[str | None] = []
        self.texts: list[str] = []
        self._chart = ""
        self._in = ""
        self.json = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._in = tag
        if "data-name" in given:
            self.values[given["data-name"] or ""] = given["data-value"] or ""
        if tag == "figure":
            self._chart = given["aria-label"] or ""
            self.charts[self._chart] = 0
        if tag in ("path", "use") and self._chart:
            self.charts[self._chart] += 1
        if tag == "script":
            self.scripts.append(given.get("type"))

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.json += data
        else:
            self.texts.append(data.strip())


def value_of(info: Any, name: str) -> Any:
    for key in name.split("."):
        info = info[key]
    return info
