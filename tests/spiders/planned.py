"""Spiders that schedule requests for later, in many ways."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from support.stops import tell

DELAY, NOT_BEFORE = "bloomdupe_delay", "bloomdupe_not_before"


class Planned(Spider):
    """Of ``start()`` and of a page, with ``dont_filter`` and without.

    /polled is asked for three times, /often twice by ``start()``. /later leads to
    /child, and /tired asks for a retry.
    """

    name = "planned"

    async def start(self) -> Any:
        base = self.start_urls[0]
        wait = self.settings.getfloat("SECONDS")
        now = datetime.now(timezone.utc)
        at = {NOT_BEFORE: now + timedelta(seconds=wait)}
        tell("begun", now.timestamp())
        yield Request(base)
        yield Request(base + "start", meta={DELAY: wait})
        yield Request(base + "start", meta={DELAY: wait / 2})  # a duplicate
        yield Request(base + "often", self.page, meta=at, dont_filter=True)
        yield Request(base + "often", self.page, meta=at, dont_filter=True)
        yield {"start": 1}

    def parse(self, response: Any) -> Any:
        wait = self.settings.getfloat("SECONDS")
        yield {"page": response.url}
        if response.url != self.start_urls[0]:
            return
        yield response.follow("/later", self.later, meta={DELAY: wait}, priority=3)
        yield response.follow("/tired", self.tired, meta={DELAY: wait / 2})
        yield response.follow("/now", self.page)
        for number in range(3):
            yield response.follow(
                "/polled",
                self.page,
                meta={NOT_BEFORE: time.time() + number * wait / 2},
                cb_kwargs={"number": number},
                dont_filter=True,
            )

    def page(self, response: Any, number: int | None = None) -> Any:
        yield {"page": response.url, "number": number}

    def later(self, response: Any) -> Any:
        yield {"page": response.url}
        wait = self.settings.getfloat("SECONDS")
        yield response.follow("/child", self.page, meta={DELAY: wait / 2})

    def tired(self, response: Any) -> Any:
        if response.text == "not yet":
            again = get_retry_request(response.request, spider=self, reason="not yet")
            yield again.replace(meta={**again.meta, DELAY: 0.1})
        else:
            yield {"page": response.url}


class Spread(Spider):
    """Sixteen hosts, each with a page for later."""

    name = "spread"

    def parse(self, response: Any) -> Any:
        wait = self.settings.getfloat("SECONDS")
        for number in range(16):
            meta = {DELAY: wait, "download_slot": f"slot{number}"}
            yield response.follow(f"/{number}", self.page, meta=meta)

    def page(self, response: Any) -> Any:
        yield {"page": response.url}
