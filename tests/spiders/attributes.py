"""Spiders that keep something in attributes, which their later callbacks need."""

from __future__ import annotations

from typing import Any

from scrapy import Request, Spider
from support.stops import pause
from support.waiting import DEADLINE

from bloomdupe.crawl.engines import committing
from bloomdupe.frontier import partition


class Login(Spider):
    """Logs in with the first page; every other page needs what the login has given."""

    name = "login"
    token: Any = None
    site = "of the class"

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Login:
        """Take over attributes as if they were arguments of the command line."""
        given = crawler.settings.getdict("ARGUMENTS")
        return super().from_crawler(crawler, *args, **{**kwargs, **given})

    async def start(self) -> Any:
        self.begun_with = self.token, self.site
        for url in self.start_urls:
            yield Request(f"{url}login", self.logged_in, dont_filter=True)

    def logged_in(self, response: Any) -> Any:
        self.log_in()
        yield from self.parse(response)

    def log_in(self) -> None:
        self.token, self.site = "a token", "of the login"

    def parse(self, response: Any) -> Any:
        yield {"path": response.url.rpartition("/")[2], "token": self.token[:7]}
        yield from response.follow_all(css="a")

    def closed(self, reason: str) -> None:
        """Show what there was at the beginning."""
        self.crawler.stats.set_value("begun_with", self.begun_with)


class NewSite(Login):
    """The same spider, changed between two runs."""

    site = "of the changed class"


class Pages(Spider):
    """Counts its pages, while its pipeline is at work."""

    name = "pages"
    state: Any

    def parse(self, response: Any) -> Any:
        yield {"item": response.url.rpartition("/")[2]}
        number = self.state["pages"] = self.state.get("pages", 0) + 1
        if number < 12:
            yield response.follow(f"/{number}", dont_filter=True)


class Rows(Spider):
    """Counts the items of its ``start()``, while its pipeline is at work."""

    name = "rows"
    begun = 0

    async def start(self) -> Any:
        while self.begun < 12:
            yield {"item": str(self.begun)}
            self.begun += 1
            yield Request(self.start_urls[0], dont_filter=True)

    def parse(self, response: Any) -> None:
        """Do nothing."""


class Numbers(Spider):
    """Counts its pages in the class."""

    name = "numbers"
    page = 0

    def parse(self, response: Any) -> Any:
        yield {"item": response.url.rpartition("/")[2]}
        Numbers.page += 1
        if Numbers.page < 8:
            yield response.follow(f"/{Numbers.page}")


class OwnSet(Spider):
    """Finds out by itself which pages it has asked for; killed at its first page."""

    name = "own set"

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.asked: set[str] = set()

    async def parse(self, response: Any) -> Any:
        yield {"item": response.url.rpartition("/")[2]}
        for link in response.css("a::attr(href)").getall():
            if link not in self.asked:
                self.asked.add(link)
                yield response.follow(link, dont_filter=True)
        yield response.follow("/plain")
        assert self.crawler.stats is not None
        if self.crawler.stats.get_value("bloomdupe/runs") == 1:
            await pause(DEADLINE)


class Menus(Spider):
    """Remembers its pages, which wait for requests in memory."""

    name = "menus"
    custom_settings = {"CONCURRENT_REQUESTS": 1}
    state: Any

    async def parse(self, response: Any) -> Any:
        name = response.url.rpartition("/")[2]
        yield response.follow("/plain", self.pass_over)
        checkpoints, is_first = self.count("checkpoints"), self.count("runs") == 1
        while is_first and not (
            self.state if name == "b" else self.count("checkpoints") > checkpoints
        ):
            await pause(0.01)  # a checkpoint comes while nothing is remembered
        if not self.state.get(name):
            self.state[name] = True
            yield {"item": name}
            for number in range(3):
                yield response.follow(f"/{name}{number}", lambda _: [{"item": name}])

    def count(self, name: str) -> int:
        assert self.crawler.stats is not None
        found: int = self.crawler.stats.get_value(f"bloomdupe/{name}", 0)
        return found

    def pass_over(self, response: Any) -> None:
        """Do nothing."""


class Hangs:
    """A pipeline that does not end."""

    async def process_item(self, item: Any) -> Any:
        await pause(DEADLINE)
        return item


def hold_for(longest: float) -> None:
    """Hold callbacks for so many seconds at most."""
    committing.LONGEST_HOLD = longest


def write_at_the_end() -> None:
    """Write a checkpoint at the end of each run."""
    committing.Committing.is_last_better = lambda *_: False  # type: ignore[method-assign]


def commit_each(overdue: int) -> None:
    """Let each new request be too much for the next checkpoint."""
    partition.MAX_FRESH, partition.OVERDUE = 1, overdue


def be_patient() -> None:
    """Let each checkpoint wait until no callback is at work."""
    committing.SHORTEST_HOLD = committing.LONGEST_HOLD = DEADLINE
