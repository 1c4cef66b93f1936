"""F3: real crawls of the sample site, stopped at random times, run again to the end.

The judge is the log of the server, a look into the store after each stop, and the
output of an undisturbed crawl.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import outputs
from scrapy import Request
from scrapy.utils.request import fingerprint
from support.forks import Child
from support.harness import DEADLINE, Project, SampleProcess, sample_process
from trial import CONTROL_SEED, OK, Fault, Outcome, each_caught, lost, silently_wrong

from bloomdupe import BloomFilter
from bloomdupe.frontier.agreement import disagreements
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.rank import BEFORE_ALL
from bloomdupe.store.lmdb.check import check
from crawler.sample_site import canonical_path

INTERVAL = 0.1
"""Seconds between checkpoints."""
META_PAGE = 4096
TRANSACTION = 144
"""The offset of ``mm_txnid`` in a meta page (LMDB 0.9, ``struct MDB_meta``)."""
PAGES, FEW_PAGES = 300, 50
"""Of the site, and of that of the control."""
KILLED_AT = 20
"""Marks or items until the control kills itself: see ``spiders/unsafe.py``."""
IN_FLIGHT = 16
"""Requests that Scrapy has in progress at most."""
ROBOTS = "/robots.txt"
FAILURE = 500


Stop = Callable[["Child", "SampleProcess"], None]
"""Stops a crawl of that server."""


def kill(crawl: Child, _: SampleProcess) -> None:
    crawl.send(signal.SIGKILL)


def interrupt_twice(crawl: Child, server: SampleProcess) -> None:
    """Let it begin to stop, and stop it before it has."""
    with server.paused():  # a crawl that waits for an answer does not end by itself
        time.sleep(0.05)  # let it read the answers, and ask for more
        crawl.send(signal.SIGINT)
        time.sleep(0.05)
        crawl.send(signal.SIGINT)


def terminate(crawl: Child, _: SampleProcess) -> None:
    crawl.send(signal.SIGTERM)


def wait(crawl: Child, _: SampleProcess) -> None:
    """Wait until it kills itself."""
    crawl.wait()


def took_place(stop: Stop, status: int, log: str) -> bool:
    """Whether a process was ended by a signal of this trial, before it had finished."""
    if "(finished)" in log:
        return False
    if stop in {kill, wait}:
        return status == -signal.SIGKILL
    # Scrapy says so when it gets the signal. A slow machine may see two as one.
    words = "SIGTERM" if stop is terminate else "SIGINT"
    return f"Received {words}" in log


class StoppedCrawl:
    """A crawl in many runs, and what is found out about it."""

    def __init__(
        self, folder: Path, server: SampleProcess, seed: int, *options: str
    ) -> None:
        self.rng = random.Random(seed)
        self.project = Project(folder / "project")
        self.server = server
        self.options = ["-a", f"url={server.url}", *options]
        self.options += ["-s", f"BLOOMDUPE_CHECKPOINT_INTERVAL={INTERVAL}"]
        self.finished = False
        """Whether it had come to its end before it was stopped."""
        self.stops = 0
        """Stops that took place: those of a crawl that was not at its end by then."""
        self.before: Counter[tuple[int, str]] = Counter()
        self.undone: list[int] = []
        """After each stop: requests of that run for pages not done for good."""
        self.allowed: list[int] = []
        """And how many there may be: in flight, and since the last checkpoint began."""
        self.done: dict[str, int] = {}
        """Pages done for good after some stop, and how often requested by then."""

    def run(self, stop: Stop | None, *options: str) -> None:
        """Run to the end, or until a random number of requests later."""
        process = self.project.begin(*self.options, *options)
        arrivals: list[tuple[int, int]] = []
        goal = self.paths().total() + self.rng.randint(1, 80)
        deadline = time.monotonic() + DEADLINE
        try:
            while stop is not None and not process.has_ended():
                assert time.monotonic() < deadline
                # The count first: later, requests could count that came after the
                # transaction.
                count = self.paths().total()
                arrivals.append((last_transaction(self.store), count))
                if count >= goal:
                    time.sleep(self.rng.uniform(0, INTERVAL))
                    stop(process, self.server)
                    break
                time.sleep(0.005)
            status, log = self.project.end(process)
        finally:
            process.kill()
        if status >= 0:
            assert "Traceback" not in log, log
        if stop is None:
            assert "(finished)" in log, log
            return
        self.stops += took_place(stop, status, log)
        self.server.until_quiet()
        # While the last commit but one was not durable, the last had not begun.
        since = last_transaction(self.store) - 1
        before = max((n for number, n in arrivals if number < since), default=0)
        self.allowed.append(self.paths().total() - before + IN_FLIGHT)
        self.look_into_store()

    @property
    def store(self) -> Path:
        return self.project.folder / self.server.folder / "bloomdupe"

    def paths(self) -> Counter[str]:
        return by_path(self.server.requests())

    def look_into_store(self) -> None:
        answered = self.server.requests()
        requested = by_path(answered)
        done: dict[str, int] = {}
        if self.store.exists():
            with BloomFilter.open(self.store) as seen:
                self.finished = seen.notes.get("run") == "finished"
                owed = urls_in(seen)
                base = self.server.url.rstrip("/")
                done = {
                    path: count
                    for path, count in requested.items()
                    if path not in owed and fingerprint(Request(base + path)) in seen
                }
            assert disagreements(check(self.store / "data.mdb")) == []
        self.done.update(done)
        of_this_run = answered - self.before
        self.before = answered
        # A page that has failed is pending again: that its retry is to come repeats
        # nothing.
        self.undone.append(
            sum(
                n
                for (status, path), n in of_this_run.items()
                if status != FAILURE and path not in {*done, ROBOTS}
            )
        )

    # The verdict

    def outputs(self) -> dict[str, list[tuple[str, ...]]]:
        return outputs.read(self.project.folder, self.server.url)

    def lost(self) -> Counter[tuple[int, str]]:
        return self.server.site.expected_requests() - self.server.requests()

    def unasked(self) -> set[str]:
        expected = {path for _, path in self.server.site.expected_requests()}
        return set(self.paths()) - expected

    def done_again(self) -> dict[str, int]:
        paths = self.paths()
        return {
            path: paths[path] - count
            for path, count in self.done.items()
            if paths[path] > count
        }


def by_path(answered: Counter[tuple[int, str]]) -> Counter[str]:
    paths = Counter[str]()
    for (_, path), count in answered.items():
        paths[path] += count
    return paths


def last_transaction(store: Path) -> int:
    """Read the number of the last commit from the two meta pages of LMDB's file."""
    try:
        with (store / "data.mdb").open("rb") as file:
            head = file.read(2 * META_PAGE)
    except FileNotFoundError:
        return 0
    if len(head) < 2 * META_PAGE:
        return 0
    return max(
        int.from_bytes(head[page + TRANSACTION :][:8], "little")
        for page in (0, META_PAGE)
    )


def urls_in(seen: BloomFilter) -> set[str]:
    store = seen._store
    assert store is not None
    with store.snapshot() as snapshot:
        return {
            canonical_path(url_of(found.payload))
            for slot in snapshot.slots()
            for found in snapshot.requests(slot.number, BEFORE_ALL)
        }


def crawl_with_stops(
    folder: Path,
    seed: int,
    stop: Stop,
    stops: int,
    *options: str,
    pages: int = PAGES,
) -> StoppedCrawl:
    with sample_process(folder, pages, delay=0.005) as server:
        crawl = StoppedCrawl(folder, server, seed, *options)
        for _ in range(stops):
            if not crawl.finished:  # or the next run would be another crawl
                crawl.run(stop, "-s", f"KILLED_AT={KILLED_AT}")
        if not crawl.finished:
            crawl.run(None)
        return crawl


class CrawlKills(Fault):
    """``scrapy crawl``, stopped again and again: most cases by ``kill -9``."""

    number = "F3"
    name = "`kill -9`, Ctrl-C twice, SIGTERM of a real crawl"
    trials = 12
    cases = 4

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        stop = (kill, kill, interrupt_twice, terminate)[seed % 4]
        return _judged(folder, seed, stop, 3)

    def control(self, folder: Path) -> list[Outcome]:
        """Marks reach the disk before their requests; items before they are done."""
        theirs = "scrapy.extensions.feedexport.FeedExporter"
        at_once = json.dumps({theirs: None, "spiders.unsafe.LinesAtOnce": 0})

        def using(setting: str) -> Callable[[Path], list[Outcome]]:
            return lambda place: _judged(
                place, CONTROL_SEED, wait, 1, "-s", setting, pages=FEW_PAGES
            )

        return each_caught(
            folder,
            using("SCHEDULER=spiders.unsafe.MarksFirst"),
            using(f"EXTENSIONS={at_once}"),
        )


def _judged(
    folder: Path,
    seed: int,
    stop: Stop,
    stops: int,
    *options: str,
    pages: int = PAGES,
) -> list[Outcome]:
    undisturbed = folder / "undisturbed"
    undisturbed.mkdir()
    peaceful = crawl_with_stops(undisturbed, 0, kill, 0, *outputs.OPTIONS, pages=pages)
    expected = peaceful.outputs()
    options = (*outputs.OPTIONS, *options)
    crawl = crawl_with_stops(folder, seed, stop, stops, *options, pages=pages)
    outcome = OK
    if crawl.lost():
        outcome = lost(f"never asked for {crawl.lost()}")
    elif crawl.outputs() != expected:
        outcome = lost("the items are not those of an undisturbed crawl")
    elif crawl.unasked() or crawl.done_again():
        outcome = silently_wrong(f"{crawl.unasked()} {crawl.done_again()}")
    elif any(n > most for n, most in zip(crawl.undone, crawl.allowed, strict=True)):
        outcome = silently_wrong(f"repeated {crawl.undone}, allowed {crawl.allowed}")
    # One verdict for all, and all that went before were stops of the same crawl.
    return [OK] * (crawl.stops - 1) + [outcome] if crawl.stops else []
