"""F26: other processes that a crawl has started outlive it, and hold nothing of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from support.page_server import page_server
from support.small_site import JOB, PAGES, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import asyncio, multiprocessing, os, signal, subprocess, sys, threading
from concurrent.futures import ProcessPoolExecutor
import bloomdupe.signals
import scrapy


def stay(*_):
    # Until the test kills it.
    with open("stay", "a") as file:
        file.write(f"{os.getpid()}\\n")
    signal.pause()


def stayed():
    return os.path.exists("stay") and open("stay").read().count("\\n")


def process(kind):
    multiprocessing.get_context(kind).Process(target=stay).start()


def pool(kind):
    KEPT.append(ProcessPoolExecutor(1, multiprocessing.get_context(kind)))
    KEPT[-1].submit(stay)


def pool_of_processes(kind):
    KEPT.append(multiprocessing.get_context(kind).Pool(1))
    KEPT[-1].apply_async(stay)


def forked():
    if not os.fork():
        stay()


def thread():
    threading.Thread(target=forked).start()


def executor():
    asyncio.get_running_loop().run_in_executor(None, forked)


def program():
    code = "import spiders; spiders.stay()"
    KEPT.append(subprocess.Popen([sys.executable, "-c", code], close_fds=False))


def forked_twice():
    if not os.fork():
        process("fork")
        os._exit(0)


KEPT = []
WAYS = {
    "fork": forked,
    "fork of a fork": forked_twice,
    "fork in a thread": thread,
    "fork in an executor": executor,
    "program": program,
    "fork process": lambda: process("fork"),
    "spawn process": lambda: process("spawn"),
    "forkserver process": lambda: process("forkserver"),
    "fork executor": lambda: pool("fork"),
    "spawn executor": lambda: pool("spawn"),
    "fork pool": lambda: pool_of_processes("fork"),
}


class Starting(scrapy.Spider):
    name = "starting"

    async def parse(self, response):
        yield {"page": response.url}
        way = self.settings["WAY"]
        if way and not stayed():
            WAYS[way]()
            while not stayed():
                await asyncio.sleep(0.01)
            await self.kill()
        for request in response.follow_all(css="a"):
            yield request

    async def kill(self):
        # When there is something in the store and in the feed.
        written = asyncio.Event()
        self.crawler.signals.connect(written.set, bloomdupe.signals.checkpoint)
        self.state["killed"] = True
        await written.wait()
        os.kill(os.getpid(), signal.SIGKILL)
"""
IN_TURN = """
import asyncio, multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.settings import Settings
from scrapy.utils.defer import deferred_f_from_coro_f
from scrapy.utils.reactor import install_reactor
import scrapy

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
from twisted.internet.task import react

POOL = ProcessPoolExecutor(1, multiprocessing.get_context("fork"))


class InTurn(scrapy.Spider):
    name = "in_turn"

    async def parse(self, response):
        loop = asyncio.get_running_loop()
        length = await loop.run_in_executor(POOL, len, response.text)
        yield {"page": response.url, "length": length}
        for request in response.follow_all(css="a"):
            yield request


async def crawl_in_turn(reactor):
    settings = {
        "ADDONS": {"bloomdupe.Addon": 500},
        "JOBDIR": "job",
        "FEEDS": {"items.jsonl": {"format": "jsonlines"}},
        "TELNETCONSOLE_ENABLED": False,
        "RETRY_ENABLED": False,
    }
    for _ in range(2):
        await AsyncCrawlerRunner(Settings(settings)).crawl(
            InTurn, start_urls=[sys.argv[1]]
        )
        print("done", flush=True)


react(deferred_f_from_coro_f(crawl_in_turn))
"""
OFTEN = "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
WAYS = [
    "fork",
    "fork of a fork",
    "fork in a thread",
    "fork in an executor",
    "program",
    "fork process",
    "spawn process",
    "forkserver process",
    "fork executor",
    "spawn executor",
    "fork pool",
]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, requested):
        try:
            yield Site(tmp_path, base, requested)
        finally:
            for pid in stayed(tmp_path):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def stayed(folder: Path) -> list[int]:
    place = folder / "stay"
    return [int(line) for line in place.read_text().split()] if place.exists() else []


def assert_alive(pids: list[int]) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, 0)


def pages(site: Site) -> list[str]:
    lines = (site.folder / "items.jsonl").read_text().splitlines()
    return sorted(json.loads(line)["page"].removeprefix(site.base) for line in lines)


@pytest.mark.parametrize("way", WAYS)
def test_the_same_command_goes_on_while_they_live(site: Site, way: str) -> None:
    process = site.start("Starting", JOB, FEED, OFTEN, f"WAY={way}")
    # Its log may stay open: they have inherited that.
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert process.stderr is not None
    process.stderr.close()
    assert_alive(stayed(site.folder))
    site.crawl("Starting", JOB, FEED)
    assert pages(site) == sorted(PAGES)
    assert_alive(stayed(site.folder))


def test_a_second_crawl_in_a_process_that_has_forked(site: Site) -> None:
    """It has the same job, and nothing left to do."""
    done = subprocess.run(
        [sys.executable, "-c", IN_TURN, f"{site.base}/"],
        cwd=site.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "done\ndone\n"
    assert "in use" not in done.stderr
    assert pages(site) == sorted(PAGES)
