"""The output of a shared crawl, collected from a real Redis by real processes."""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections import deque
from contextlib import closing
from itertools import count, product
from pathlib import Path

import pytest
from moving.collecting_child import (
    NAMED,
    NAMES,
    Crawl,
    collect,
    packed,
    started,
)
from support.jobs import Verb
from support.redis_server import LOGGED, RedisServer
from support.repetition import by_default
from support.waiting import until

from bloomdupe import BloomFilter
from bloomdupe.moving import collecting
from bloomdupe.moving.collecting import LOCK, RECORD, Collecting
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.crawl_reader import CrawlKeys, CrawlOnRedis, Sample

pytestmark = pytest.mark.slow

STRIDE = 7
"""Every so many-th point is tried."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "YOUNG", 0.0)


@pytest.fixture
def crawl(url: str) -> Crawl:
    """Return a crawl that has put out some lines, and is done."""
    crawl = Crawl(url)
    crawl.put_out(20, random.Random(1))
    return crawl


def stream(crawl: Crawl) -> bytes:
    return CrawlKeys(Address.of(crawl.url).name).output


# The output


@by_default
def test_what_is_collected_is_deleted_and_the_rest_goes_into_another_directory(
    verb: Verb, redis_server: RedisServer, crawl: Crawl, tmp_path: Path
) -> None:
    days = [tmp_path / "monday", tmp_path / "tuesday"]
    with redis_server.client() as client:
        before = client.xlen(stream(crawl))
        assert verb("collect", *NAMED, crawl.url, days[0]).code == 0
        assert client.xlen(stream(crawl)) == before
        # The lines that an earlier call has collected are deleted, too.
        words = ("collect", *NAMED, crawl.url, days[0], "--delete", "--json")
        client.config_set("maxmemory", 1)  # it is what makes room in a full Redis
        assert json.loads(verb(*words).out)["deleted"] == before - 1
        assert verb("block", crawl.url, "--slot", "a.example").code == 0
        client.config_set("maxmemory", 0)
        assert client.xlen(stream(crawl)) == 1
    assert crawl.complaints(days[0]) == []
    refused = verb("collect", *NAMED, crawl.url, days[1])
    assert refused.code == 1
    assert "was deleted by another `bloomdupe collect --delete`" in refused.err
    for seed in (15, 16):
        crawl.put_out(9, random.Random(seed))
        words = ("collect", *NAMED, crawl.url, days[1], "--rest", "--delete")
        assert verb(*words).code == 0
        assert (days[1] / "site.jsonl").stat().st_size
    assert crawl.complaints(*days) == []


# Interruptions


def test_each_line_comes_once_after_an_end_at_any_point(
    url: str, tmp_path: Path
) -> None:
    """Twice; meanwhile the crawl goes on. Afterwards it is called once more.

    An end is a kill, Ctrl-C, or a disk that fails once.
    """
    kinds: deque[tuple[tuple[str, ...], str]]
    kinds = deque(product([(), ("--delete",)], ["kill", "KeyboardInterrupt"]))
    kinds.append(((), "EIO"))
    ends = 0
    for stop in count(1, STRIDE):
        kinds.rotate()
        (options, action), rng = kinds[0], random.Random(stop)
        crawl = Crawl(f"{url} {stop}")
        crawl.put_out(9, rng)
        out = tmp_path / f"out{stop}"
        out.mkdir()
        said = Path(f"{out}.said")
        for number, point in enumerate((stop, rng.randint(1, 60))):
            crawl.leave()
            code = collect(crawl.url, out, *options, number=point, action=action)
            assert code in ((0, -signal.SIGKILL) if action == "kill" else (0, 1, 130))
            assert "Traceback" not in said.read_text()
            ends += code != 0
            if not number and not code:
                kinds.popleft()  # it has fewer points than that: all were tried
            crawl.join()
            crawl.put_out(3, rng)
        crawl.leave()
        assert collect(crawl.url, out, *options) == 0, said.read_text()
        assert crawl.complaints(out) == [], f"ended at {stop}"
        if not kinds:
            break
    assert ends > 100 // STRIDE


@pytest.mark.parametrize("without", ["sync", "pieces", "repair"])
def test_the_judge_finds_errors(url: str, tmp_path: Path, without: str) -> None:
    """The control of the test above."""
    for stop in range(30, 150):
        rng = random.Random(stop)
        crawl = Crawl(f"{url} {stop}")
        crawl.put_out(9, rng)
        crawl.leave()
        out = tmp_path / f"out{stop}"
        collect(crawl.url, out, number=stop, without=without)
        if collect(crawl.url, out, without=without) or crawl.complaints(out):
            return
    pytest.fail("nothing was found")


# Following


def test_following_until_the_crawl_has_ended(
    verb: Verb, redis_server: RedisServer, url: str, tmp_path: Path
) -> None:
    """Another process is at work on the crawl meanwhile, and one collects at a time."""
    crawl, rng, out = Crawl(url), random.Random(7), tmp_path / "out"
    process = started(url, out, "--follow", "--delete")
    until((out / RECORD).exists)
    refused = verb("collect", *NAMED, url, out)
    assert refused.code == 1
    assert f"is in use by process {process.pid};" in refused.err
    crawl.leave()
    said = Path(f"{out}.said")
    until(lambda: "has not ended, and no worker crawls it" in said.read_text())
    crawl.join()
    crawl.enqueue(100)
    while crawl.ack(rng):
        if not rng.randrange(20):
            until(lambda: not crawl.complaints(out))
    crawl.leave()
    assert process.end() == 0
    assert crawl.complaints(out) == []
    assert "The crawl has not ended" not in said.read_text()
    with redis_server.client() as client:
        assert client.xlen(stream(crawl)) <= 1


def test_a_crawl_that_goes_on_during_collect_has_not_ended(
    crawl: Crawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker comes and leaves."""
    crawl.leave()

    def enqueue_and_leave() -> None:
        crawl.join()
        crawl.enqueue(1)
        crawl.leave()

    begins = iter([enqueue_and_leave])

    sample = CrawlOnRedis.sample

    def watched(crawl: CrawlOnRedis, partitions: int) -> Sample:
        found = sample(crawl, partitions)
        next(begins, int)()
        return found

    monkeypatch.setattr(CrawlOnRedis, "sample", watched)
    out = tmp_path / "out"

    def ended() -> bool:
        with closing(Collecting(crawl.url, out, named=NAMES)) as it:
            it.run()
            return bool(it.result["finished"])

    assert not ended()
    assert not ended()
    crawl.join()
    crawl.put_out(0, random.Random(10))
    assert not ended()
    crawl.leave()
    assert ended()
    assert crawl.complaints(out) == []


@pytest.mark.parametrize("run", ["finished", "open", "shutdown"])
def test_only_a_crawl_that_has_finished_has_ended(
    verb: Verb, crawl: Crawl, tmp_path: Path, run: str
) -> None:
    """Though nothing of it is left: a leader that was killed could not say so."""
    out = tmp_path / "out"
    crawl.put_out(5, random.Random(7))
    crawl.kill(run=run)
    said = verb("collect", *NAMED, crawl.url, out).out
    assert ("The crawl has not ended" not in said) == (run == "finished")
    # The rest waits for the end.
    assert (crawl.complaints(out) == []) == (run == "finished")


# What is refused


def test_a_redis_that_has_gone_back_is_noticed(tmp_path: Path) -> None:
    """The pages that it has lost are fetched again, so their lines would come twice."""
    folder = tmp_path / "redis"
    out, rng = tmp_path / "out", random.Random(10)
    with RedisServer(folder, *LOGGED) as server:
        crawl = Crawl(server.url("a"))
        crawl.put_out(20, rng)
        shutil.copytree(folder / "appendonlydir", tmp_path / "older")
        crawl.put_out(20, rng)
        assert collect(crawl.url, out) == 0
        server.kill()
        shutil.rmtree(folder / "appendonlydir")
        shutil.copytree(tmp_path / "older", folder / "appendonlydir")
        server.start()
        assert collect(crawl.url, out) == 1
        assert "Redis has gone back to older data" in Path(f"{out}.said").read_text()
        assert crawl.complaints(out) == []  # it is as it was


def contents(out: Path) -> dict[Path, bytes]:
    files = (path for path in out.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.name != LOCK}


ANEW = "of another crawl"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (None, ["site.jsonl is there, and was not collected", "Move it away"]),
        ("{", [f"{RECORD} is damaged", "Put it back"]),
        ('{"format": 2}', [f"{RECORD} is damaged", "format is not 3"]),
        (ANEW, ["was collected from another crawl, or before"]),
    ],
)
def test_files_that_are_no_longer_those_of_the_crawl_are_refused_and_left(
    verb: Verb, redis_server: RedisServer, crawl: Crawl, tmp_path: Path,
    record: str | None, words: list[str],
) -> None:  # fmt: skip
    out = tmp_path / "out"
    crawl.enqueue(1)  # the files of a crawl that has ended belong to the user
    assert verb("collect", *NAMED, crawl.url, out).code == 0
    if record == ANEW:
        with redis_server.client() as client:
            client.flushdb()
        crawl = Crawl(crawl.url)
    else:
        (out / RECORD).unlink()
        if record is not None:
            (out / RECORD).write_text(record)
    crawl.put_out(5, random.Random(11))
    before = contents(out)
    refused = verb("collect", *NAMED, crawl.url, out)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.count("\n") == 1
    for word in words:
        assert word in refused.err
    assert before == contents(out)


ITEM = packed({"a": 1}, 0)


@pytest.mark.parametrize(
    "data",
    [
        *(packed({"a": 1}, *numbers) for numbers in ((3,), ())),
        *(b"0 {}\n", ITEM[:8], ITEM + b"x"),
    ],
)
def test_an_invalid_item_is_refused(
    verb: Verb, redis_server: RedisServer, crawl: Crawl, tmp_path: Path, data: bytes
) -> None:
    with redis_server.client() as client:
        client.xadd(stream(crawl), {"0": ITEM, "1": data})
    refused = verb("collect", *NAMED, crawl.url, tmp_path / "out")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert " cannot be read here: " in refused.err


def test_other_places_are_refused(
    verb: Verb, url: str, crawl: Crawl, tmp_path: Path
) -> None:
    BloomFilter.open(f"{url}-filter", 10).close()
    (tmp_path / "file").write_text("mine")
    for place, name, words in (
        (f"{url}-filter", "out", "there is no crawl of this name"),
        (crawl.url, "file", f"cannot collect into {tmp_path / 'file'}"),
    ):
        refused = verb("collect", *NAMED, place, tmp_path / name)
        assert refused.code == 1
        assert words in refused.err
    assert not (tmp_path / "out").exists()
