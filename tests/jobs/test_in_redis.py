"""Verbs for a crawl in partitions on Redis, beside the same job in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.jobs import IDENTITY, Verb, fill, make_job
from support.owners_model import joined
from support.redis_server import RedisServer

from bloomdupe import BloomFilter
from bloomdupe.crawl.progress.pace import when
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.errors import NotOwnerError
from bloomdupe.frontier.sent_request import PARTITIONS, SentRequest, partition_of
from bloomdupe.jobs import open_job
from bloomdupe.store.files import SILENT_AFTER
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.owner import PartitionOwner

HOSTS = 7
DONE = [f"https://h{n}.example/done" for n in range(HOSTS)]
WAITING = [f"https://h{n % HOSTS}.example/{n}" for n in range(30)]


def begin_crawl(url: str) -> None:
    """Begin a crawl as a worker does that ends before it has made all filters."""
    with closing(joined(Address.of(url), PARTITIONS)) as owner:
        BloomFilter.open(owner.stores[0], 1_000, identity=IDENTITY)
        owner.begin({}, give=range(PARTITIONS)).send()
        owner.forget([owner.token])


@pytest.fixture
def crawl(url: str) -> str:
    """Return a crawl that has stopped, as ``make_job`` makes it in a directory."""
    begin_crawl(url)
    with closing(open_job(url).hold(None)) as job:
        fill(job, WAITING, DONE)
    return url


@pytest.fixture
def worker(crawl: str) -> Iterator[PartitionOwner]:
    """Yield the only worker of the crawl, which has just committed."""
    with closing(joined(Address.of(crawl), PARTITIONS)) as owner:
        owner.stores[0].commit()
        yield owner


@pytest.mark.parametrize(
    "commands",
    [
        [["list"], ["list", "--slot", "h3.example"], ["list", "--pattern", "/2.$"]],
        [["check", DONE[0], WAITING[0], "https://h1.example/new", "https://x.example"]],
        [["add", "https://h1.example/new", WAITING[1], "https://x.example/"], ["list"]],
        [["requeue", DONE[1], WAITING[1], "https://h1.example/new"], ["list"]],
        [["drop", "--slot", "h2.example"], ["drop", WAITING[0]], ["list"]],
        [["drop", "--pattern", "."], ["list"], ["add", WAITING[0]], ["list"]],
        [["block", "--slot", "h3.example"], ["add", "https://h3.example/new"]],
        [["block", DONE[1]], ["requeue", DONE[1]], ["block", "--undo", DONE[1]]],
        [["pause", "--slot", "h3.example"], ["pause", "--slot", "h4.example"]],
        [["resume", "--slot", "h3.example"], ["stop"], ["list", "--failed"]],
    ],
)
def test_verbs_answer_as_they_do_for_a_directory(
    crawl: str, verb: Verb, tmp_path: Path, commands: list[list[str]]
) -> None:
    job = str(make_job(tmp_path / "job", WAITING, done=DONE))
    for name, *words in commands:
        answers = [verb(name, place, *words) for place in (job, crawl)]
        for one, other in zip(*answers, strict=True):
            ours = str(one).replace(f"{job}/bloomdupe", job).replace(job, crawl)
            assert sorted(ours.splitlines()) == sorted(str(other).splitlines())


def test_a_running_crawl_is_handed_requests_and_is_not_reset(
    crawl: str, verb: Verb, worker: PartitionOwner, tmp_path: Path
) -> None:
    later = tmp_path / "later"
    assert "job running (1 worker)" in " ".join(verb("info", crawl).out.split())
    answer = verb("add", crawl, "https://x.example/", "https://y.example/")
    assert (answer.code, "handed to the running crawl" in answer.out) == (0, True)
    sent = [
        SentRequest.read(entry)
        for store in worker.stores.values()
        for entry in store.read_inbox(10)
        if partition_of(SentRequest.read(entry).slot) == store.number
    ]
    assert sorted(one.slot for one in sent) == ["x.example", "y.example"]
    assert "https://x.example/" in verb("list", crawl, "--slot", "x.example").out
    later.write_text('{"url": "https://z.example/", "not_before": 4000000000}')
    assert verb("add", crawl, "--from", later).code == 0
    listed = verb("list", crawl, "--slot", "z.example").out
    assert listed.endswith(f"https://z.example/  after {when(4e9)}\n")
    refused = verb("reset", crawl, "--yes")
    assert (refused.code, "is in use by 1 worker" in refused.err) == (1, True)
    worker.stores[0].commit()  # it was not disturbed


def test_a_worker_that_was_killed_is_overruled_and_goes_on_with_nothing_old(
    crawl: str,
    worker: PartitionOwner,
    verb: Verb,
    redis_server: RedisServer,
) -> None:
    with redis_server.client() as client:
        client.hincrby(worker.keys.head, "at", -int(SILENT_AFTER) - 5)
        assert "no heartbeat" in verb("info", crawl).out
        client.hset(worker.keys.head, "alive", client.time()[0])
        assert "no heartbeat" not in verb("info", crawl).out
        assert verb("drop", crawl, "--pattern", ".").code == 1
        client.hdel(worker.keys.head, "alive")
    assert verb("drop", crawl, "--pattern", ".").out == "30 removed, 0 pending\n"
    with pytest.raises(NotOwnerError):
        worker.stores[0].commit()


def test_rules_of_two_verbs_at_a_time_are_both_kept(crawl: str) -> None:
    job = open_job(crawl)

    def change(rules: Rules) -> Rules:
        if not rules.paused:  # another verb is quicker
            job.replace_rules(lambda other: other.adding("paused", ["a"]))
        return rules.adding("paused", ["b"])

    assert job.replace_rules(change).paused == {"a", "b"}


def test_reset_leaves_no_key(crawl: str, verb: Verb, redis_server: RedisServer) -> None:
    verb("pause", crawl, "--slot", "a")
    answer = verb("reset", crawl, "--yes")
    assert answer.code == 0, answer.err
    assert "37 URLs seen, 30 requests pending" in answer.out
    with redis_server.client() as client:
        name = Address.of(crawl).name
        assert client.keys(f"bd:{{{name}}}:*") == []


def test_a_name_without_a_crawl(url: str, verb: Verb) -> None:
    for words in (["list"], ["add", DONE[0]], ["drop", "--slot", "a"], ["stop"]):
        answer = verb(words[0], url, *words[1:])
        assert (answer.code in (1, 2), answer.out) == (True, ""), words
    begin_crawl(url)
    assert "no crawl has used this store" in verb("top", url).err
