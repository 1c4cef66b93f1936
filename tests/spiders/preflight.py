"""The spider of a project. ``SITE`` is the URL of the site that it crawls."""

from __future__ import annotations

import os
from typing import Any

from scrapy import Spider

from bloomdupe import FrontierScheduler

SITE = os.environ["SITE"]


class First(Spider):
    name = "first"
    start_urls = [f"{SITE}/0"]

    def parse(self, response: Any) -> Any:
        yield {"page": response.url}
        yield from response.follow_all(css="a")

    parse.__doc__ = f"""Follow the links.

    @url {SITE}/1
    @returns items 1 1
    """


class OwnScheduler(FrontierScheduler):
    """As a project may derive it."""
