"""A spider that counts its pages in ``spider.state``."""

from __future__ import annotations

from typing import Any

from spiders.workers import Everyday


class Counts(Everyday):
    name = "counts"

    def parse(self, response: Any) -> Any:
        state: Any = self.state  # type: ignore[attr-defined]
        state.setdefault("pages", []).append(response.url)
        self.logger.info("pages so far: %d", len(state["pages"]))
        yield from super().parse(response)


class Unstorable(Counts):
    name = "unstorable"

    def parse(self, response: Any) -> Any:
        self.state["lambda"] = lambda: None  # type: ignore[attr-defined]
        yield from super().parse(response)
