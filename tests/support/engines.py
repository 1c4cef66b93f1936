"""Engines: the differences of a crawl in memory, on disk and on Redis, for a test."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from itemadapter.adapter import ItemAdapter
from scrapy.utils.serialize import ScrapyJSONEncoder

from bloomdupe import BloomFilter
from bloomdupe.crawl.state.failures import Failure, stored_failures
from bloomdupe.feeds import journal
from bloomdupe.requests.values import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bloomdupe.store.redis.crawl_reader import CrawlOnRedis, Sample
    from bloomdupe.store.snapshot import Snapshot
    from support.redis_server import RedisServer

_numbers = count()
LEASE = 15
"""Seconds: no busy machine holds a worker up for so long. See ``pass_on()``."""


class Memory:
    """Without ``JOBDIR``: nothing outlives the process."""

    settings: dict[str, Any] = {"BLOOMDUPE_CHECKPOINT_INTERVAL": 0.05}  # noqa: RUF012 - it is never changed
    job = ""
    """The job, as the verbs of ``bloomdupe`` are told it."""
    finished = True
    """Whether all that workers share is done."""
    collects = False
    """Whether `bloomdupe collect` writes the feeds."""

    def items(self, folder: Path) -> list[Any]:
        """Return the items that the job has put out, read from its first feed."""
        file = folder / "items.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def pass_time(self, seconds: float) -> Callable[[], None] | None:
        """Let delayed requests be due sooner, as if time had passed.

        Returns the function to call ``before`` a run, if there is one.
        """
        from spiders.waiting import set_clock

        return partial(set_clock, seconds)

    def snapshots(self, folder: Path) -> Iterator[Snapshot]:
        """Yield what each store of the job has, as of its last commit."""
        return iter(())

    def records(self, folder: Path, name: str) -> list[dict[str, Any]]:
        """Return the records of this name of all stores."""
        found = [snapshot.record(name) for snapshot in self.snapshots(folder)]
        return [record for record in found if record is not None]

    def done(self, folder: Path) -> int:
        """Count the pages that are durably done."""
        records = self.records(folder, "crawl")
        return sum(record.get("totals", {}).get("pages", 0) for record in records)

    def failures(self, folder: Path) -> list[Failure]:
        """Return the failed requests, also those that are pending again."""
        return [
            failure
            for snapshot in self.snapshots(folder)
            for _, failure in stored_failures(snapshot)
        ]

    def pass_on(self, log: str, *, last: bool) -> None:
        """Let other processes have the requests of a process that was killed.

        ``log`` is its log; ``last`` says that no other process is alive.
        """


class Disk(Memory):
    """A job in ``JOBDIR``."""

    job = "job"
    settings = {**Memory.settings, "JOBDIR": job}  # noqa: RUF012 - it is never changed

    def snapshots(self, folder: Path) -> Iterator[Snapshot]:
        store = folder / self.job / "bloomdupe"
        if store.exists():
            with BloomFilter.open(store, readonly=True) as seen:
                assert seen.store is not None
                with seen.store.snapshot() as snapshot:
                    yield snapshot


class Redis(Memory):
    """A job of its own on a server of the tests; each call reads it anew."""

    collects = True

    def __init__(self, server: Any, job: str = "") -> None:
        self.server = server
        self.named = job or f"job {next(_numbers)}"
        self.job = server.url(self.named)
        self.settings = {
            "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.05,
            "BLOOMDUPE_REDIS_URL": self.job,
            "BLOOMDUPE_REDIS_LEASE": LEASE,
        }

    def pass_on(self, log: str, *, last: bool) -> None:
        workers = re.findall(r"This is (?:now )?worker (\S+)", log)
        if last or workers:
            self.end_leases(*(() if last else workers))

    def end_leases(self, *workers: str) -> None:
        """Let all leases of the job, or of some workers, run out now."""
        self.server.end_leases(self.named, *workers)

    @property
    def _crawl(self) -> CrawlOnRedis:
        from bloomdupe.store.redis.address import Address
        from bloomdupe.store.redis.client import Client
        from bloomdupe.store.redis.crawl_reader import CrawlOnRedis

        return CrawlOnRedis(Client(Address.of(self.job)))

    def snapshots(self, folder: Path | None = None) -> Iterator[Snapshot]:
        from bloomdupe.store.redis.redis_store import RedisStore

        crawl = self._crawl
        for number in range(crawl.partitions):
            with RedisStore(crawl, number).snapshot() as snapshot:
                yield snapshot

    @property
    def sample(self) -> Sample:
        """One moment of the crawl."""
        crawl = self._crawl
        return crawl.sample(crawl.partitions)

    @property
    def finished(self) -> bool:  # type: ignore[override]
        return self.sample.finished

    @property
    def owners(self) -> Counter[str]:
        """Count the partitions of each worker; those without a worker are left out."""
        # No worker has begun it, perhaps.
        return Counter(self.sample.owners.values() if self._crawl.partitions else [])

    def lines(self) -> Iterator[tuple[int, str, float]]:
        """Yield the items of the output: feed, line of JSON, Unix time."""
        crawl = self._crawl
        for name, fields in crawl.client.ask("XRANGE", crawl.keys.output, "-", "+"):
            when = int(name.split(b"-")[0]) / 1000
            for feeds, packed in map(journal.unpacked, fields.values()):
                line = ScrapyJSONEncoder().encode(ItemAdapter(unpack(packed)).asdict())
                yield from ((feed, line, when) for feed in feeds)

    def items(self, folder: Path) -> list[Any]:
        del folder
        return [json.loads(line) for _, line, _ in self.lines()]


def collecting_at_once() -> None:
    """Let `collect` read entries at once: this Redis will not come back without them.

    Called before the verb, in its process. F23 goes without it.
    """
    from bloomdupe.moving import collecting

    collecting.YOUNG = 0.0


DISK = Disk()
MEMORY = Memory()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a short name, as a socket needs it."""
    return tmp_path_factory.mktemp("r")


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield a real server without persistence, for all tests of this process."""
    pytest.importorskip("redis")
    from support.redis_server import RedisServer

    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture
def url(redis_server: RedisServer, tmp_path: Path) -> str:
    """Return the URL of a crawl, or a filter, that is not there yet."""
    return redis_server.url(tmp_path.name)


def on_both_engines(test: Any) -> Any:
    """Let a test that uses ``crawl`` run on each engine; on Redis only in CI."""
    params = ["disk", pytest.param("redis", marks=pytest.mark.slow)]
    both = pytest.mark.parametrize("engine", params, indirect=True)
    return pytest.mark.usefixtures("engine")(both(test))


@pytest.fixture(params=["disk", "redis"])
def engine(request: pytest.FixtureRequest) -> Memory:
    """Return each engine in turn: one test for both.

    A test may ask for ``memory``, too, by ``indirect`` parameters.
    """
    if request.param in ("disk", "memory"):
        return DISK if request.param == "disk" else MEMORY
    return Redis(request.getfixturevalue("redis_server"))
