"""Crawls that scrapy-redis has kept on Redis, taken over.

The keys are written here as scrapy-redis 0.9.1 writes them with Scrapy 2.19: requests
as ``Request.to_dict()``, pickled with the highest protocol, by ZADD under the negated
priority, or by LPUSH; fingerprints by SADD, in hexadecimal. So the package is needed
for one test only, which runs it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import redis
from scrapy import Request
from spiders.follow import Site
from support.crawl import Crawl
from support.jobs import (
    PROJECT,
    SPIDER,
    Answer,
    Verb,
    as_project,
    urls,
)
from support.redis_server import RedisServer
from support.repetition import repeated
from support.shared_data import needs_package
from support.site import links

from bloomdupe.errors import StoreError
from bloomdupe.jobs.held import Problems
from bloomdupe.jobs.project import Project
from bloomdupe.links.fingerprint import ScrapyRedisFingerprinter
from bloomdupe.moving.scrapy_redis_job import RedisJob

OURS = "bloomdupe.links.fingerprint"
FINGERPRINTER = (
    f"{PROJECT}REQUEST_FINGERPRINTER_CLASS = '{OURS}.ScrapyRedisFingerprinter'\n"
)
QUEUES = ["PriorityQueue", "FifoQueue", "LifoQueue"]


class Theirs:
    """A crawl that scrapy-redis has kept, and the job into which it is taken over."""

    def __init__(self, client: redis.Redis, url: str, verb: Verb) -> None:
        self.client = client
        self.url = url
        self.verb = verb

    def import_(self, *options: str) -> Answer:
        trust = options or ("--trust-pickles",)
        return self.verb("import", "job", self.url, "--spider", "site", *trust)

    def push(self, requests: Iterable[Request], queue: str = "PriorityQueue") -> None:
        """Put requests into a queue."""
        if queue == "PriorityQueue":
            scores = {dumped(request): -request.priority for request in requests}
            self.client.zadd("site:requests", scores)
        else:
            self.client.lpush("site:requests", *map(dumped, requests))

    def mark(self, requests: Iterable[Request]) -> None:
        """Let requests count as seen."""
        fingerprint = ScrapyRedisFingerprinter().fingerprint
        found = [fingerprint(request).hex() for request in requests]
        self.client.sadd("site:dupefilter", *found)

    @property
    def changes(self) -> int:
        """How often anything on this Redis was changed."""
        persistence: dict[str, int] = self.client.info("persistence")
        return persistence["rdb_changes_since_last_save"]

    def listed(self) -> list[str]:
        """Return the paths of what is pending, in the order of the job."""
        found = urls(self.verb, Path("job"))
        return [one.removeprefix("https://a.example/") for one in found]


@pytest.fixture
def theirs(redis_server: RedisServer, verb: Verb) -> Iterator[Theirs]:
    with redis_server.client() as client:
        client.flushall()
        yield Theirs(client, f"unix://{redis_server.socket}", verb)


def dumped(request: Request) -> bytes:
    return pickle.dumps(request.to_dict(spider=SPIDER), protocol=-1)


def pages(count: int) -> list[Request]:
    return [Request(f"https://a.example/{n}") for n in range(count)]


# Pending requests


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("order", repeated(["Lifo", "Fifo"]))
def test_pending_requests_are_imported_in_their_order(
    theirs: Theirs, queue: str, order: str
) -> None:
    as_project(
        f"{FINGERPRINTER}SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.{queue}'\n"
        f"SCHEDULER_DISK_QUEUE = 'scrapy.squeues.Pickle{order}DiskQueue'\n"
    )
    by_priority = queue == "PriorityQueue"
    requests = [
        one.replace(priority=n % 5 - 2 if by_priority else 0)
        for n, one in enumerate(pages(1_200))
    ]
    theirs.push(requests, queue)
    theirs.mark([*requests, Request("https://a.example/done")])
    before = theirs.changes
    answer = theirs.import_()
    assert answer.code == 0, answer
    assert answer.out.startswith(
        "1,200 requests pending now\n1,201 URLs count as seen\n"
    )
    # As its pop() does: ZRANGE 0 0, RPOP, LPOP.
    expected = {
        "PriorityQueue": [
            one.url
            for one in sorted(requests, key=lambda one: (-one.priority, dumped(one)))
        ],
        "FifoQueue": [one.url for one in requests],
        "LifoQueue": [one.url for one in reversed(requests)],
    }[queue]
    assert [f"https://a.example/{one}" for one in theirs.listed()] == expected
    assert theirs.changes == before
    assert theirs.verb("verify", Path("job")).code == 0
    found = theirs.verb(
        "check", "job", "https://a.example/done", "https://a.example/new"
    ).out
    assert found == (
        "seen, not pending: https://a.example/done\nnew: https://a.example/new\n"
    )


def test_pickles_are_refused_unless_they_are_trusted(theirs: Theirs) -> None:
    as_project(FINGERPRINTER)
    theirs.push(pages(2))
    theirs.mark(pages(2))
    answer = theirs.verb("import", "job", theirs.url, "--spider", "site")
    assert (answer.code, answer.out) == (1, "")
    assert f"{theirs.url} holds pickled requests" in answer.err
    assert answer.err.count("\n") == 1
    assert not Path("job").exists()
    answer = theirs.import_("--fingerprints-only")
    assert answer.code == 0
    assert answer.out.startswith("0 requests pending now\n2 URLs count as seen\n")
    assert "Nothing shows whether the fingerprints are those of" in answer.out


# What is seen


def test_useless_marks_are_refused(theirs: Theirs) -> None:
    as_project(PROJECT)
    requests = pages(3)
    theirs.push(requests)
    theirs.mark([*requests, Request("https://a.example/done")])
    answer = theirs.import_()
    assert (answer.code, answer.out) == (1, "")
    assert (
        "set REQUEST_FINGERPRINTER_CLASS to the class that has made them" in answer.err
    )
    assert not Path("job/bloomdupe").exists()


# Names, and what is refused


def test_names_follow_the_settings(theirs: Theirs) -> None:
    as_project(
        f"{FINGERPRINTER}SCHEDULER_QUEUE_KEY = 'q %(spider)s'\n"
        "SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.LifoQueue'\n"
        "SCHEDULER_DUPEFILTER_KEY = 'seen'\n"
        "SCHEDULER_SERIALIZER = 'json'\n"
    )
    for number in range(2):
        text = f'{{"url": "https://a.example/{number}"}}'
        theirs.client.lpush("q site", text)
    theirs.mark(pages(2))
    theirs.client.rename("site:dupefilter", "seen")
    answer = theirs.import_()
    assert answer.code == 0, answer
    assert theirs.listed() == ["1", "0"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("QUEUE_KEY = '%(name)s'", "no pending requests in '%(name)s'"),
        ("SERIALIZER = 'gone'", "SCHEDULER_SERIALIZER = 'gone' cannot be loaded"),
    ],
)
def test_a_wrong_name_is_refused_in_a_line(
    theirs: Theirs, setting: str, said: str
) -> None:
    as_project(f"{PROJECT}SCHEDULER_{setting}\n")
    theirs.push(pages(1))
    answer = theirs.import_()
    assert answer.code
    assert said in answer.err
    assert answer.err.count("\n") == 1


# Interrupted, or changed meanwhile


def test_a_worker_that_still_runs_is_noticed(theirs: Theirs) -> None:
    as_project(FINGERPRINTER)
    theirs.push(pages(3))
    theirs.mark(pages(3))
    project = Project(None, "site")
    crawl = RedisJob(theirs.url, project)
    total, requests = crawl.pending(project.crawler, Path(), Problems())
    theirs.client.zpopmin("site:requests")
    assert len(list(requests)) < total
    with pytest.raises(StoreError, match="has changed meanwhile: stop all its"):
        crawl.end(Path(), trusted=True)


# The real one

COUNT = 200
LINKS = 5


def linked(number: int) -> str:
    return links(*(f"/{(number * 3 + place) % COUNT}" for place in range(LINKS)))


def test_a_crawl_that_scrapy_redis_has_begun_is_finished_here(
    theirs: Theirs, crawl: Crawl
) -> None:
    """Two of its workers, stopped in good order: nothing is lost, and none is twice."""
    needs_package("scrapy_redis")
    served = {f"/{number}": linked(number) for number in range(COUNT)}
    crawl.site.pages = {"/start": linked(0), **served}
    workers = [
        crawl.start(
            Site,
            starts=["/start"],
            ADDONS={},
            CLOSESPIDER_PAGECOUNT=COUNT // 5,
            DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter",
            JOBDIR=None,
            REDIS_URL=theirs.url,
            REQUEST_FINGERPRINTER_CLASS=f"{OURS}.ScrapyRedisFingerprinter",
            SCHEDULER="scrapy_redis.scheduler.Scheduler",
            SCHEDULER_PERSIST=True,
        )
        for _ in range(2)
    ]
    assert [worker.wait().status for worker in workers] == [0, 0]
    assert 0 < len(crawl.site.log) < COUNT
    as_project(
        f"{FINGERPRINTER}SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.PriorityQueue'\n"
        "SPIDER_MODULES = ['spiders.follow']\n"
    )
    pending = theirs.client.zcard("site:requests")
    job = crawl.folder / "job"
    answer = theirs.verb(
        "import", job, theirs.url, "--spider", "site", "--trust-pickles"
    )
    assert answer.out.startswith(f"{pending} requests pending now\n"), answer
    crawl.run(
        Site,
        starts=["/start"],
        REQUEST_FINGERPRINTER_CLASS=f"{OURS}.ScrapyRedisFingerprinter",
    )
    # Each fetches the start page, which is not marked; no page links to it.
    asked = [path for path in crawl.site.requested if path != "/start"]
    assert sorted(asked) == sorted(served)
