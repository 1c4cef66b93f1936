"""A spider that starts another process, in each way that Python has."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from scrapy import Spider
from support.stops import moment

STAY = Path("stay")


def stay(*_: Any) -> None:
    """Live until the test kills it."""
    with STAY.open("a") as file:
        file.write(f"{os.getpid()}\n")
    signal.pause()


def stayed() -> int:
    return STAY.exists() and STAY.read_text().count("\n")


def process(kind: Any) -> None:
    multiprocessing.get_context(kind).Process(target=stay).start()


def pool(kind: Any) -> None:
    KEPT.append(ProcessPoolExecutor(1, multiprocessing.get_context(kind)))
    KEPT[-1].submit(stay)


def pool_of_processes(kind: Any) -> None:
    KEPT.append(multiprocessing.get_context(kind).Pool(1))
    KEPT[-1].apply_async(stay)


def forked() -> None:
    if not os.fork():
        stay()


def program() -> None:
    code = "from spiders.forks import stay; stay()"
    KEPT.append(subprocess.Popen([sys.executable, "-c", code], close_fds=False))


def forked_twice() -> None:
    if not os.fork():
        process("fork")
        os._exit(0)


KEPT: list[Any] = []
WAYS: dict[str, Callable[[], object]] = {
    "fork": forked,
    "fork of a fork": forked_twice,
    "fork in a thread": lambda: threading.Thread(target=forked).start(),
    "fork in an executor": lambda: asyncio.get_running_loop().run_in_executor(
        None, forked
    ),
    "program": program,
    "fork process": lambda: process("fork"),
    "spawn process": lambda: process("spawn"),
    "forkserver process": lambda: process("forkserver"),
    "fork executor": lambda: pool("fork"),
    "spawn executor": lambda: pool("spawn"),
    "fork pool": lambda: pool_of_processes("fork"),
}


class Starting(Spider):
    name = "starting"

    async def parse(self, response: Any) -> Any:
        yield {"page": response.url}
        way = self.settings["WAY"]
        if way and not stayed():
            WAYS[way]()
            while not stayed():
                await asyncio.sleep(0.01)
            await moment(self, "started")
        for request in response.follow_all(css="a"):
            yield request
