"""EverydayCrew: real workers of one crawl, and who collects what they put out."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everyday_spider import settings

import bloomdupe.cli.main

if TYPE_CHECKING:
    from collections.abc import Callable

    from nursery import Nursery

PARTITIONS = 8
BADLY = "ValueError: as everyday spiders do"
"""What the spider itself raises."""


class Hand:
    """A process: a worker, or who collects."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid = pid
        self.folder = folder
        self.status: int | None = None
        """Once it has ended; negative: the signal that has ended it."""
        self.stopped_by = ""
        """What was done to it, if it is not to end by itself."""

    @property
    def log(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    @property
    def reason(self) -> str:
        """Of its end, if it had come so far."""
        found = re.search(r"Spider closed \((.*?)\)", self.log)
        return found[1] if found else ""

    @property
    def joined(self) -> bool:
        """Whether it works, or has worked."""
        return self.status is not None or "This is worker" in self.log

    def complaint(self) -> str:
        """Say what is wrong with how it has ended; nothing if nothing is."""
        log = self.log
        if self.stopped_by in {"kill", "interrupt twice"}:
            return ""
        reasons = {"finished"}
        if self.stopped_by:  # Scrapy that is about to begin ends without a word
            reasons |= {"shutdown", ""}
        if self.status or self.reason not in reasons:
            return f"{self.folder.name} ended with {self.status} ({self.reason})"
        if log.count("Traceback") > log.count(BADLY) or "CRITICAL" in log:
            return f"{self.folder.name} has a traceback in its log"
        return ""


class EverydayCrew:
    """Workers that come and go, and one process that collects."""

    def __init__(self, nursery: Nursery, folder: Path, site: str) -> None:
        self._nursery = nursery
        self._folder = folder
        self._site = site
        self.hands: list[Hand] = []
        """All workers that there ever were."""
        self.collectors: list[Hand] = []
        self._known: list[Hand] = []

    def stock(self) -> Path:
        """Let stock Scrapy do it; return the folder of its feeds."""
        hand = self._crawl("stock", {}, "")
        self.wait_until(lambda: hand.status is not None, "stock Scrapy")
        assert hand.reason == "finished", hand.log
        return hand.folder

    def hire(self, name: str, url: str, lease: float, without: str = "") -> Hand:
        """Start a worker of the crawl that ``url`` names."""
        shared = {
            "ADDONS": {"bloomdupe.Addon": 500},
            "BLOOMDUPE_EXPECTED_URLS": 10_000,
            "BLOOMDUPE_REDIS_LEASE": lease,
            "BLOOMDUPE_REDIS_PARTITIONS": PARTITIONS,
            "BLOOMDUPE_REDIS_URL": url,
        }
        hand = self._crawl(name, shared, without)
        self.hands.append(hand)
        return hand

    def _crawl(self, name: str, more: dict[str, Any], without: str) -> Hand:
        folder = self._folder / name
        folder.mkdir()
        values = {**settings(name), **more}
        lines = (f"{key} = {value!r}\n" for key, value in values.items())
        (folder / "project.py").write_text("".join(lines))
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
        pid = self._nursery.start(
            folder,
            ["scrapy", "crawl", "everyday"],
            without and f"taken_out.{without}",
            SITE=self._site,
            SCRAPY_SETTINGS_MODULE="project",
        )
        return self._hand(pid, folder)

    def _hand(self, pid: int, folder: Path) -> Hand:
        hand = Hand(pid, folder)
        self._known.append(hand)
        return hand

    def collect(self, url: str, place: Path, *options: str) -> Hand:
        """Start ``bloomdupe collect`` of the crawl."""
        folder = self._folder / f"collector{len(self.collectors)}"
        folder.mkdir()
        program = str(Path(bloomdupe.cli.main.__file__))
        command = [program, "collect", url, str(place), *options]
        hand = self._hand(self._nursery.start(folder, command), folder)
        self.collectors.append(hand)
        return hand

    @property
    def alive(self) -> list[Hand]:
        """Workers that have not ended, those that are about to included."""
        self.look()
        return [hand for hand in self.hands if hand.status is None]

    @property
    def at_work(self) -> list[Hand]:
        """Workers to which nothing was done that ends them."""
        return [hand for hand in self.alive if not hand.stopped_by]

    def look(self) -> None:
        """Take note of who has ended."""
        ended = self._nursery.ended()
        for hand in self._known:
            if hand.status is None:
                hand.status = ended.get(hand.pid)

    def send(self, hand: Hand, what: int) -> None:
        """Send a signal to a process; nothing happens if it has ended."""
        # It is there until ``look``, at least as a zombie.
        if hand.status is None:
            os.kill(hand.pid, what)

    def kill(self, hand: Hand) -> None:
        hand.stopped_by = "kill"
        self.send(hand, signal.SIGKILL)
        self.wait_until(lambda: hand.status is not None, "a killed process")

    def wait_until(
        self, holds: Callable[[], bool], what: str, seconds: float = 120.0
    ) -> None:
        """Wait for something; only what hangs takes so long."""
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(what)
            time.sleep(0.01)
            self.look()
