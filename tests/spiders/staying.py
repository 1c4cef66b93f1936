"""Spiders of crawls that stay open."""

from __future__ import annotations

from typing import Any

from support.components import Listens

from spiders.follow import PutsOut


class Stays(Listens, PutsOut):
    """Puts out each page and follows its links; says when it is idle."""

    name = "stays"

    def spider_idle(self) -> None:
        self.logger.info("The spider is idle")

    def other(self, response: Any) -> Any:
        yield {"other": response.url.rpartition("/")[2]}
