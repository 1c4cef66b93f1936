"""Crawls that scrapy-redis has kept on Redis, taken over.

The keys are written here as scrapy-redis 0.9.1 writes them with Scrapy 2.19: requests
as ``Request.to_dict()``, pickled with the highest protocol, by ZADD under the negated
priority, or by LPUSH; fingerprints by SADD, in hexadecimal. So the package is needed
for one test only, which runs it.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgpack  # type: ignore[import-untyped]
import pytest
from scrapy import Request
from support.jobs import COMMIT, SPIDER, call, killed_after, sound, urls
from support.page_server import page_server
from support.ports import kept_port
from support.redis_server import RedisServer
from support.shared_data import needs_package

from bloomdupe import BloomFilter
from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.errors import StoreError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.jobs.lines import Problems
from bloomdupe.jobs.project import Project
from bloomdupe.links.scrapy_redis import (
    ScrapyRedis07Fingerprinter,
    ScrapyRedisFingerprinter,
)
from bloomdupe.moving.scrapy_redis_job import RedisJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import redis
    from support.jobs import Answer, Verb

PASSWORD = "open-sesame"  # noqa: S105 - of a server that lives for a test
OURS = "bloomdupe.links.scrapy_redis"
FINGERPRINTER = f"REQUEST_FINGERPRINTER_CLASS = '{OURS}.ScrapyRedisFingerprinter'\n"
QUEUES = ["PriorityQueue", "FifoQueue", "LifoQueue"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    with server.client() as connected:
        connected.flushall()
        yield connected


@pytest.fixture
def url(server: RedisServer) -> str:
    return f"unix://{server.socket}"


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], None]:
    """Return what makes the folder that of a project, with these settings."""

    def make(settings: str) -> None:
        name = f"settings_{uuid4().hex}"
        (tmp_path / "scrapy.cfg").write_text(f"[settings]\ndefault = {name}\n")
        (tmp_path / f"{name}.py").write_text(settings)

    return make


@pytest.fixture
def import_(verb: Verb, url: str) -> Callable[..., Answer]:
    """Return what imports from the server."""
    return lambda *options: verb("import", "job", url, "--spider", "site", *options)


def dumped(request: Request) -> bytes:
    return pickle.dumps(request.to_dict(spider=SPIDER), protocol=-1)


def push(client: redis.Redis, requests: Iterable[Request], queue: str) -> None:
    """Put requests into a queue."""
    for request in requests:
        if queue == "PriorityQueue":
            client.zadd("site:requests", {dumped(request): -request.priority})
        else:
            client.lpush("site:requests", dumped(request))


def mark(
    client: redis.Redis,
    requests: Iterable[Request],
    theirs: Any = ScrapyRedisFingerprinter,
) -> None:
    """Let requests count as seen."""
    for request in requests:
        client.sadd("site:dupefilter", theirs().fingerprint(request).hex())


def pages(count: int, **arguments: Any) -> list[Request]:
    return [Request(f"https://a.example/{n}", **arguments) for n in range(count)]


def listed(verb: Verb) -> list[str]:
    """Return the paths of what waits, in the order in which the job takes them."""
    return [one.removeprefix("https://a.example/") for one in urls(verb, Path("job"))]


def everything(client: redis.Redis) -> dict[bytes, Any]:
    read: dict[Any, Callable[[bytes], Any]] = {
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    return {key: read[client.type(key)](key) for key in client.scan_iter()}


# What waits


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("order", ["Lifo", "Fifo"])
def test_what_waits_is_taken_over_in_its_order(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
    capsys: pytest.CaptureFixture[str],
    queue: str,
    order: str,
) -> None:
    project(
        f"{FINGERPRINTER}SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.{queue}'\n"
        f"SCHEDULER_DISK_QUEUE = 'scrapy.squeues.Pickle{order}DiskQueue'\n"
    )
    by_priority = queue == "PriorityQueue"
    requests = [
        one.replace(priority=n % 5 - 2 if by_priority else 0)
        for n, one in enumerate(pages(1_200))
    ]
    push(client, requests, queue)
    mark(client, [*requests, Request("https://a.example/done")])
    before = everything(client)
    answer = import_()
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
    assert [f"https://a.example/{one}" for one in listed(verb)] == expected
    assert everything(client) == before
    assert sound(capsys, Path("job"))
    found = verb("check", "job", "https://a.example/done", "https://a.example/new").out
    assert found == (
        "seen, not pending: https://a.example/done\nnew: https://a.example/new\n"
    )


def test_requests_come_back_as_they_were(
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(FINGERPRINTER)
    requests = [
        Request(
            "https://a.example/form",
            SPIDER.parse_item,
            method="POST",
            body=b"\x00\xff",
            headers={"X-A": ["1", "2"], "Referer": "https://a.example/"},
            cookies={"a": "b"},
            meta={"depth": 3, "list": [1, (2, 3)], "text": "ä"},
            cb_kwargs={"page": 1},
            priority=-7,
            flags=["x"],
        ),
        Request("data:,x", errback=SPIDER.parse_item, dont_filter=True),
    ]
    push(client, requests, "PriorityQueue")
    mark(client, requests[:1])
    assert import_().code == 0
    found = []
    with BloomFilter.open("job/bloomdupe") as seen:
        frontier = Frontier(seen)
        while (entry := frontier.lease()) is not None:
            assert entry.payload is not None
            found.append(Serializer(SPIDER).load(entry.payload).to_dict(spider=SPIDER))
    expected = [request.to_dict(spider=SPIDER) for request in requests]
    for one in (*found, *expected):
        # The spider's parse is what no callback stands for.
        one["callback"] = one["callback"] or "parse"
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_start_requests_that_wait_come_last_and_in_their_order(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(f"{FINGERPRINTER}SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.FifoQueue'\n")
    starts = pages(3, dont_filter=True, meta={"is_start_request": True})
    others = [Request("https://a.example/x"), Request("https://a.example/y")]
    push(client, [*starts, *others], "FifoQueue")
    mark(client, others)
    assert import_().code == 0
    assert listed(verb) == ["x", "y", "0", "1", "2"]


def test_the_score_counts_and_not_what_the_request_says(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(FINGERPRINTER)
    first, second = pages(2)
    client.zadd("site:requests", {dumped(second): -5, dumped(first): 5})
    mark(client, [first, second])
    assert import_().code == 0
    out = verb("list", "job", "--json").out
    assert [json.loads(line)["priority"] for line in out.splitlines()] == [5, -5]
    assert listed(verb) == ["1", "0"]


@dataclass
class Harmless:
    """Of a type that only the project knows."""

    number: int


class Harm:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.place,))


def test_a_pickle_runs_nothing_unless_it_is_trusted(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
    tmp_path: Path,
) -> None:
    project(FINGERPRINTER)
    harm = tmp_path / "harm"
    requests = pages(1)
    requests.append(Request("https://a.example/x", meta={"x": Harmless(1)}))
    requests.append(Request("https://a.example/y", meta={"x": Harm(harm)}))
    push(client, requests, "PriorityQueue")
    client.zadd("site:requests", {b"\x80\x05garbage": 0, b"": 0, pickle.dumps([1]): 0})
    mark(client, requests)
    answer = import_()
    assert answer.code == 1
    assert "it has a test_redis_job.Harmless in it" in answer.out
    assert "it has a pathlib.Path.touch in it" in answer.out
    assert "5 could not be read:" in answer.out
    assert "site:requests, request " in answer.out
    assert "it is no dict of a request" in answer.out
    assert listed(verb) == ["0"]
    assert not harm.exists()
    # The control: this is what could be run.
    verb("reset", "job", "--yes")
    import_("--trust-pickles")
    assert harm.exists()
    assert {"0", "x"} <= set(listed(verb))


def test_no_module_is_imported_because_a_request_names_it(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
    tmp_path: Path,
) -> None:
    project(FINGERPRINTER)
    (tmp_path / "evil.py").write_text("open('harm', 'w').close()\n")
    good = pages(1)
    push(client, good, "PriorityQueue")
    mark(client, good)
    given = {**good[0].to_dict(spider=SPIDER), "_class": "evil.Request"}
    client.zadd("site:requests", {pickle.dumps(given): 0})
    given = {**good[0].to_dict(spider=SPIDER), "callback": ["parse"]}
    client.zadd("site:requests", {pickle.dumps(given): 0})
    answer = import_()
    assert "the module of evil.Request is not loaded" in answer.out
    assert "it has a callback that is no name: ['parse']" in answer.out
    assert not (tmp_path / "harm").exists()
    assert listed(verb) == ["0"]


SERIALIZER = "SCHEDULER_SERIALIZER = {!r}\n"


@pytest.mark.parametrize("serializer", ["msgpack", "json", "pickle"])
def test_serializers_that_run_nothing(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
    serializer: str,
) -> None:
    project(FINGERPRINTER + SERIALIZER.format(serializer))
    request = Request("https://a.example/0", meta={"a": [1]}, priority=3)
    given: Any = request.to_dict(spider=SPIDER)
    if serializer == "json":  # which has no bytes
        given |= {"body": "", "headers": {}}
        data = json.dumps(given).encode()
    else:
        data = {"msgpack": msgpack.packb, "pickle": pickle.dumps}[serializer](given)
    client.zadd("site:requests", {data: -3})
    mark(client, [request])
    answer = import_()
    assert answer.code == 0, answer
    assert listed(verb) == ["0"]


def test_another_serializer_has_to_be_trusted(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
    tmp_path: Path,
) -> None:
    name = f"serializer_{uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(
        "import json\nopen('read', 'w').close()\n"
        "loads = lambda data: json.loads(data[::-1])\n"
    )
    project(FINGERPRINTER + SERIALIZER.format(name))
    given = {"url": "https://a.example/0"}
    client.zadd("site:requests", {json.dumps(given).encode()[::-1]: 0})
    mark(client, pages(1))
    answer = import_()
    assert (answer.code, answer.out) == (2, "")
    assert "--trust-pickles reads the data" in answer.err
    assert not (tmp_path / "read").exists()
    assert import_("--trust-pickles").code == 0
    assert listed(verb) == ["0"]


# What is seen


@pytest.mark.parametrize(
    "theirs", [ScrapyRedisFingerprinter, ScrapyRedis07Fingerprinter]
)
def test_marks_that_would_mean_nothing_are_refused(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
    tmp_path: Path,
    theirs: type,
) -> None:
    requests = pages(3)
    push(client, requests, "PriorityQueue")
    mark(client, [*requests, Request("https://a.example/done")], theirs)
    answer = import_()
    assert (answer.code, answer.out) == (1, "")
    setting = f"REQUEST_FINGERPRINTER_CLASS = '{OURS}.{theirs.__name__}'"
    assert setting in answer.err
    assert "--without-marks imports only the pending requests" in answer.err
    assert not (tmp_path / "job").exists()
    # What it says helps.
    project(setting)
    assert import_().code == 0
    assert verb("check", "job", "https://a.example/done").out.startswith("seen")


def test_without_marks_done_pages_are_new(
    verb: Verb, client: redis.Redis, import_: Callable[..., Answer]
) -> None:
    requests = pages(3)
    push(client, requests, "PriorityQueue")
    mark(client, [*requests, Request("https://a.example/done")])
    answer = import_("--without-marks")
    assert answer.code == 0
    assert "count as seen" not in answer.out
    assert listed(verb) == ["0", "1", "2"]
    assert verb("check", "job", "https://a.example/done").out.startswith("new")


class TheirOwn:
    """A fingerprinter that a project might have."""

    def fingerprint(self, request: Request) -> bytes:
        return request.url.encode()


def test_marks_of_a_function_that_nobody_knows_are_refused(
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    requests = pages(3)
    push(client, requests, "PriorityQueue")
    mark(client, requests, TheirOwn)
    answer = import_()
    assert answer.code == 1
    assert "nor of any version of scrapy-redis" in answer.err
    project(f"REQUEST_FINGERPRINTER_CLASS = '{__name__}.TheirOwn'\n")
    assert import_().code == 0


def test_where_nothing_that_waits_shows_whose_they_are(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(FINGERPRINTER)
    push(client, pages(3, dont_filter=True), "PriorityQueue")
    mark(client, [Request("https://a.example/done")])
    answer = import_()
    assert answer.code == 1
    assert "--known URL does" in answer.err
    answer = import_("--known", "done")
    assert answer.code == 2
    assert "--known: it is no URL such as https://example.com/: 'done'" in answer.err
    answer = import_("--known", "https://a.example/never")
    assert answer.code == 1
    assert "nor of any version of scrapy-redis" in answer.err
    assert import_("--known", "https://a.example/done").code == 0
    assert verb("check", "job", "https://a.example/done").out.startswith("seen")


def test_marks_that_are_not_all_there_are_told(
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(FINGERPRINTER)
    push(client, pages(5), "PriorityQueue")
    mark(client, pages(3))
    answer = import_()
    assert answer.code == 0
    assert "2 of the first pending requests are not in 'site:dupef" in answer.out
    assert answer.out.startswith("5 requests pending now\n3 URLs count as seen\n")


def test_a_member_that_is_no_fingerprint_is_named(
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(FINGERPRINTER)
    push(client, pages(1), "PriorityQueue")
    mark(client, pages(1))
    client.sadd("site:dupefilter", b"\xff", "xyz")
    answer = import_()
    assert answer.code == 1
    assert "1 URLs count as seen" in answer.out
    assert "site:dupefilter: b'xyz' is no fingerprint" in answer.out


def test_many_marks(
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(FINGERPRINTER)
    push(client, pages(1), "PriorityQueue")
    mark(client, pages(1))
    others = [f"{n:040x}" for n in range(20_000)]
    client.sadd("site:dupefilter", *others)
    answer = import_()
    assert answer.code == 0
    with BloomFilter.open("job/bloomdupe", readonly=True) as seen:
        assert all(seen.contains(bytes.fromhex(one)) for one in others)


@pytest.mark.parametrize("key", ["site:dupefilter", "site:bloomfilter"])
def test_a_bitmap_is_refused(
    verb: Verb,
    client: redis.Redis,
    import_: Callable[..., Answer],
    tmp_path: Path,
    key: str,
) -> None:
    push(client, pages(3), "PriorityQueue")
    client.setbit(key, 12_345, 1)
    answer = import_()
    assert (answer.code, answer.out) == (1, "")
    assert f"the key '{key}' is a bitmap, such as scrapy-redis-bloomf" in answer.err
    assert "--without-marks" in answer.err
    assert not (tmp_path / "job").exists()
    assert import_("--without-marks").code == 0
    assert listed(verb) == ["0", "1", "2"]


def test_a_queue_without_marks_is_refused_unless_it_is_asked_for(
    client: redis.Redis, import_: Callable[..., Answer]
) -> None:
    push(client, pages(3), "PriorityQueue")
    answer = import_()
    assert answer.code == 1
    assert "there is no key 'site:dupefilter' (SCHEDULER_DUPEFILTER_KEY)" in answer.err
    assert import_("--without-marks").code == 0


# Start URLs


def feed(client: redis.Redis, kind: str, data: list[str]) -> None:
    for place, one in enumerate(data):
        if kind == "list":
            client.rpush("site:start_urls", one)
        elif kind == "set":
            client.sadd("site:start_urls", one)
        else:
            client.zadd("site:start_urls", {one: -place})


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_start_urls_that_nobody_has_taken(
    verb: Verb, client: redis.Redis, import_: Callable[..., Answer], kind: str
) -> None:
    data = [f"https://a.example/{n}" for n in range(1, 6)]
    feed(client, kind, data)
    before = everything(client)
    answer = import_()
    assert answer.code == 0, answer
    assert answer.out == "5 requests pending now\n"  # and nothing was under way
    assert listed(verb) == ["1", "2", "3", "4", "5"]
    assert everything(client) == before
    assert import_().out.startswith("0 requests pending now\n5 were imported before")


def test_start_urls_as_json_and_what_is_none(
    client: redis.Redis, import_: Callable[..., Answer]
) -> None:
    form = {"url": "https://a.example/form", "method": "post", "a": "1", "b": "2"}
    query = {"url": "https://a.example/query", "meta": {"n": 7}, "a": "1"}
    bad = ["no URL", '{"method": "GET"}', "[1]", '{"url": 1}', '{"url": "mailto:x"}']
    feed(client, "list", [json.dumps(form), json.dumps(query), *bad])
    client.rpush("site:start_urls", b"\xff")
    answer = import_()
    assert answer.code == 1
    assert answer.out.startswith("2 requests pending now\n6 could not be read:\n")
    assert "site:start_urls, 3: it has blanks in it: 'no URL'" in answer.out
    found = []
    with BloomFilter.open("job/bloomdupe") as seen:
        frontier = Frontier(seen)
        while (entry := frontier.lease()) is not None:
            assert entry.payload is not None
            found.append(Serializer(SPIDER).load(entry.payload))
    posted, got = found
    assert (posted.url, posted.method) == ("https://a.example/form", "POST")
    assert posted.body == b"a=1&b=2"
    content_type = posted.headers["Content-Type"]
    assert content_type == b"application/x-www-form-urlencoded"
    assert (got.url, got.meta) == ("https://a.example/query?a=1", {"n": 7})
    assert posted.dont_filter
    assert got.dont_filter


SPIDERS = """
from scrapy import Spider
SPIDER_MODULES = [__name__]
class Site(Spider):
    name = "site"
    redis_key = "starts of %(name)s"
    def setup_redis(self): ...
"""


def test_the_key_that_a_spider_names_and_reads_itself(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(SPIDERS)
    client.rpush("starts of site", "https://a.example/1")
    answer = import_()
    assert answer.code == 0
    assert "Spider 'site' reads 'starts of site' by itself, too" in answer.out
    assert listed(verb) == ["1"]


def test_a_spider_that_makes_its_own_requests_of_start_urls(
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(SPIDERS + "    def make_request_from_data(self, data): ...\n")
    client.rpush("starts of site", "https://a.example/1")
    answer = import_()
    assert answer.code == 1
    assert answer.out.startswith("0 requests pending now\n1 could not be read:\n")
    assert "let scrapy-redis take them into its queue first" in answer.out


# Names, and what is refused


def test_names_follow_the_settings(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
) -> None:
    project(
        f"{FINGERPRINTER}SCHEDULER_QUEUE_KEY = 'q %(spider)s'\n"
        "SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.SpiderStack'\n"
        "SCHEDULER_DUPEFILTER_KEY = 'seen'\nREDIS_START_URLS_KEY = 's %(name)s'\n"
    )
    first, second, third = pages(3)
    client.lpush("q site", dumped(first), dumped(second))
    client.rpush("s site", third.url)
    mark(client, [first, second])
    client.rename("site:dupefilter", "seen")
    answer = import_()
    assert answer.code == 0, answer
    assert listed(verb) == ["1", "0", "2"]


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ("SCHEDULER_QUEUE_KEY = 'a'", 1, "nothing of scrapy-redis is there for spider"),
        ("SCHEDULER_QUEUE_KEY = '%(name'", 2, "'%(name' is no name of a key"),
        ("SCHEDULER_QUEUE_CLASS = 'my.Queue'", 2, "its order is not known here"),
        ("SCHEDULER_QUEUE_CLASS = 'a.LifoQueue'", 1, "is a zset, and what"),
        ("SCHEDULER_DUPEFILTER_KEY = 'site:requests'", 1, "no set of fingerprints"),
        ("REDIS_START_URLS_KEY = 'text'", 1, "no list or set of start URLs"),
    ],
)
def test_what_does_not_fit_is_refused(
    client: redis.Redis,
    project: Callable[[str], None],
    import_: Callable[..., Answer],
    tmp_path: Path,
    settings: str,
    code: int,
    message: str,
) -> None:
    project(settings)
    client.set("text", "x")
    push(client, pages(1), "PriorityQueue")
    answer = import_()
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert not (tmp_path / "job").exists()


def test_a_job_of_another_spider_and_none_at_all(
    verb: Verb, client: redis.Redis, url: str
) -> None:
    feed(client, "list", ["https://a.example/1"])
    answer = verb("import", "job", url)
    assert answer.code == 2
    assert "--spider NAME says whose it is to be" in answer.err
    assert verb("import", "job", url, "--spider", "site").code == 0
    assert verb("import", "job", url).code == 0
    assert verb("import", "job", url, "--spider", "other").code == 2


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("redis://:open-sesame@127.0.0.1:{port}", 1, "no Redis answers there"),
        ("redis://:open-sesame@127.0.0.1:x", 2, "cannot be read"),
        ("redis://:open-sesame@127.0.0.1#seen", 2, "must end before the #"),
        ("unix:///nowhere?password=open-sesame", 1, "no Redis answers there"),
        ("unix://nobody:open-sesame@{socket}", 1, "Redis lets us not in"),
    ],
)
def test_a_server_that_does_not_answer(
    verb: Verb,
    server: RedisServer,
    client: redis.Redis,
    url: str,
    code: int,
    message: str,
) -> None:
    client.ping()
    given = url.format(port=kept_port(), socket=server.socket)
    answer = verb("import", "job", given, "--spider", "site")
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert PASSWORD not in answer.err
    assert not Path("job").exists()


def test_with_a_password_and_no_right_to_write(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    server: RedisServer,
) -> None:
    """Nothing is written there: the rights are those that the document names."""
    project(FINGERPRINTER)
    push(client, pages(3), "PriorityQueue")
    mark(client, pages(3))
    feed(client, "set", ["https://a.example/start"])
    rights = (
        "+info +type +llen +lrange +zcard +zrange +zrevrange +scard +sscan +sismember"
    )
    client.acl_setuser(
        "reader",
        enabled=True,
        passwords=[f"+{PASSWORD}"],
        keys=["site:*"],
        commands=rights.split(),
    )
    url = f"unix://reader:{PASSWORD}@{server.socket}"
    answer = verb("import", "job", url, "--spider", "site")
    client.acl_deluser("reader")
    assert answer.code == 0, answer
    assert answer.out.startswith("4 requests pending now\n")
    document = Path(__file__).parents[2] / "bloomdupe/docs/from-scrapy-redis.md"
    assert rights in " ".join(document.read_text().split())


def test_without_the_package(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from bloomdupe.cli.main import main\n"
        "sys.exit(main(['import', 'job', 'redis://host', '--spider', 'site']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install 'bloomdupe[redis]'" in done.stderr
    assert "Traceback" not in done.stderr


# Interrupted, or changed meanwhile


def test_killed_in_the_middle_and_run_again(
    verb: Verb,
    client: redis.Redis,
    project: Callable[[str], None],
    url: str,
    tmp_path: Path,
) -> None:
    """Requests with dont_filter, of which no filter can tell that they were taken."""
    project(FINGERPRINTER)
    same = [
        Request("https://a.example/", dont_filter=True, meta={"n": n})
        for n in range(8_000)
    ]
    client.zadd("site:requests", {dumped(one): 0 for one in [*same, *pages(1)]})
    mark(client, pages(1))
    before = everything(client)
    words = ["import", "job", url, "--spider", "site"]
    killed_after(COMMIT, 2, *words, cwd=tmp_path)
    some = len(urls(verb, Path("job")))
    assert 0 < some < len(same)
    answer = verb("import", "job", url)
    assert answer.code == 0
    assert f"{some:,} were imported before" in answer.out
    assert len(urls(verb, Path("job"))) == len(same) + 1
    # Once more, nothing comes.
    assert verb("import", "job", url).out.startswith(
        "0 requests pending now\n8,001 were"
    )
    assert len(urls(verb, Path("job"))) == len(same) + 1
    assert everything(client) == before


@pytest.mark.usefixtures("verb")
@pytest.mark.parametrize("queue", QUEUES)
def test_a_worker_that_still_runs_is_noticed(
    client: redis.Redis,
    project: Callable[[str], None],
    url: str,
    queue: str,
) -> None:
    project(f"{FINGERPRINTER}SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.{queue}'\n")
    requests = pages(1_200)
    push(client, requests, queue)
    mark(client, requests)
    crawl = RedisJob(url, Project(None, "site"))
    some = crawl.requests(Problems())
    next(some)
    crawl.check_unchanged()
    if queue == "PriorityQueue":
        client.zpopmin("site:requests")
    else:
        client.rpop("site:requests")
    with pytest.raises(StoreError, match="has changed meanwhile, so a program still"):
        list(some)
    push(client, [Request("https://a.example/more")], queue)  # as many as before
    with pytest.raises(StoreError, match="has changed meanwhile, so a program still"):
        crawl.check_unchanged()
    crawl.close()


# The real one

PAGES = 400
LINKS = 5

WORKER = """
from scrapy import Spider

BOT_NAME = "worker"
SPIDER_MODULES = [__name__]
REDIS_URL = {url!r}
SCHEDULER_PERSIST = True
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.{queue}"
REQUEST_FINGERPRINTER_CLASS = "bloomdupe.links.scrapy_redis.ScrapyRedisFingerprinter"
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
JOBDIR = "job"

class Site(Spider):
    name = "site"
    start_urls = ["{base}/start"]

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, priority=len(link) % 3)
"""


def linked(number: int) -> str:
    links = [(number * 3 + place) % PAGES for place in range(LINKS)]
    return "".join(f"<a href='/{link}'>x</a>" for link in links)


@pytest.fixture
def site() -> Iterator[tuple[str, list[str]]]:
    """Serve pages with links; what is requested is noted."""
    served = {f"/{number}": linked(number) for number in range(PAGES)}
    with page_server({"/start": linked(0), **served}) as serving:
        yield serving


@pytest.mark.parametrize(
    "queue",
    ["PriorityQueue", *(pytest.param(q, marks=pytest.mark.slow) for q in QUEUES[1:])],
)
def test_a_crawl_that_scrapy_redis_has_begun_is_finished_here(
    client: redis.Redis,
    project: Callable[[str], None],
    url: str,
    site: tuple[str, list[str]],
    tmp_path: Path,
    queue: str,
) -> None:
    """Two of its workers, stopped in good order: nothing is lost, and none is twice."""
    needs_package("scrapy_redis")
    base, requested = site
    project(WORKER.format(url=url, queue=queue, base=base))
    scrapy = [sys.executable, "-W", "ignore", "-m", "scrapy", "crawl", "site"]
    theirs = [
        *scrapy, "-s", "SCHEDULER=scrapy_redis.scheduler.Scheduler",
        "-s", "DUPEFILTER_CLASS=scrapy_redis.dupefilter.RFPDupeFilter",
        "-s", f"CLOSESPIDER_PAGECOUNT={PAGES // 5}", "-s", "JOBDIR=",
    ]  # fmt: skip
    workers = [subprocess.Popen(theirs, cwd=tmp_path) for _ in range(2)]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    there = len(requested)
    assert 0 < there < PAGES
    done = call("import", "job", url, "--spider", "site", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    waiting = client.zcard if queue == "PriorityQueue" else client.llen
    assert done.stdout.startswith(f"{waiting('site:requests')} requests pending now\n")
    ours = [*scrapy, "-s", 'ADDONS={"bloomdupe.Addon": 500}']
    subprocess.run(ours, cwd=tmp_path, check=True, timeout=60, env=dict(os.environ))
    # Each fetches the start page, which is not marked; no page links to it.
    pages = [one for one in requested if one != "/start"]
    assert sorted(pages) == sorted(f"/{n}" for n in range(PAGES))
