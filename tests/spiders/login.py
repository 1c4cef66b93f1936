"""A spider that logs in with each account, in a jar of its own."""

from __future__ import annotations

from typing import Any

from scrapy import FormRequest, Spider


def keep_no_cookies() -> None:
    """Leave the cookies out of the checkpoints, for the controls."""
    from bloomdupe.inside_scrapy.cookie_jars import CookieJars

    CookieJars.of = lambda *_: None  # type: ignore[method-assign,assignment]


class Login(Spider):
    """The first account is in the usual jar."""

    name = "login"
    accounts = {"ann": None, "bob": "bob"}
    slots = 0
    """Slots among which the pages are divided; 0: they are in that of their host."""

    async def start(self) -> Any:
        for account, jar in self.accounts.items():
            yield FormRequest(
                self.start_urls[0] + "login",
                formdata={"user": account},
                meta={"cookiejar": jar},
            )

    def parse(self, response: Any) -> Any:
        yield {"title": response.css("h1::text").get()}
        for href in response.css("a::attr(href)").getall():
            meta = {"cookiejar": response.meta["cookiejar"]}
            if self.slots:
                number = int(href.rpartition("/")[2])
                meta["download_slot"] = f"slot {number % self.slots}"
            yield response.follow(href, meta=meta)


class ByMany(Login):
    """Many workers may have its pages."""

    name = "by_many"
    slots = 8
