"""Two crawls after each other in one process, which forks meanwhile.

python in_turn.py URL
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from scrapy import Spider
from scrapy.crawler import CrawlerRunner
from scrapy.settings import Settings
from scrapy.utils.defer import deferred_f_from_coro_f, maybe_deferred_to_future
from scrapy.utils.reactor import install_reactor

POOL = ProcessPoolExecutor(1, multiprocessing.get_context("fork"))


class InTurn(Spider):
    name = "in_turn"

    async def parse(self, response: Any) -> Any:
        loop = asyncio.get_running_loop()
        length = await loop.run_in_executor(POOL, len, response.text)
        yield {"page": response.url, "length": length}
        for request in response.follow_all(css="a"):
            yield request


async def crawl_in_turn(_: Any) -> None:
    settings = {
        "ADDONS": {"bloomdupe.Addon": 500},
        "JOBDIR": "job",
        "FEEDS": {"items.jsonl": {"format": "jsonlines"}},
        "TELNETCONSOLE_ENABLED": False,
        "RETRY_ENABLED": False,
    }
    for _ in range(2):
        runner = CrawlerRunner(Settings(settings))
        crawled = runner.crawl(InTurn, start_urls=[sys.argv[1]])
        await maybe_deferred_to_future(crawled)
        print("done", flush=True)


if __name__ == "__main__":
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from twisted.internet.task import react

    react(deferred_f_from_coro_f(crawl_in_turn))
