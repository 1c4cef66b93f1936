"""Crawls that scrapy-redis has kept on Redis, taken over.

The keys are written here as scrapy-redis 0.9.1 writes them with Scrapy 2.19: requests
as ``Request.to_dict()``, pickled with the highest protocol, by ZADD under the negated
priority, or by LPUSH; fingerprints by SADD, in hexadecimal. So the package is needed
for one test only, which runs it.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgpack  # type: ignore[import-untyped]
import pytest
import redis
from scrapy import Request
from spiders.redis_job import Site
from support.crawl import Crawl
from support.jobs import (
    COMMIT,
    LONG,
    RICH,
    SPIDER,
    Answer,
    Harm,
    Harmless,
    Verb,
    as_project,
    described,
    killed_after,
    restored,
    sound,
    urls,
)
from support.ports import kept_port
from support.redis_server import RedisServer
from support.repetition import repeated
from support.shared_data import needs_package
from support.site import links

from bloomdupe import BloomFilter
from bloomdupe.cli.progress_bar import counted
from bloomdupe.errors import StoreError
from bloomdupe.jobs.lines import Problems
from bloomdupe.jobs.project import Project
from bloomdupe.links.scrapy_redis import (
    ScrapyRedis07Fingerprinter,
    ScrapyRedisFingerprinter,
)
from bloomdupe.moving.scrapy_redis_job import RedisJob

PASSWORD = "open-sesame"  # noqa: S105 - of a server that lives for a test
OURS = "bloomdupe.links.scrapy_redis"
FINGERPRINTER = f"REQUEST_FINGERPRINTER_CLASS = '{OURS}.ScrapyRedisFingerprinter'\n"
QUEUES = ["PriorityQueue", "FifoQueue", "LifoQueue"]


class Theirs:
    """A crawl that scrapy-redis has kept, and the job into which it is taken over."""

    def __init__(self, client: redis.Redis, url: str, verb: Verb) -> None:
        self.client = client
        self.url = url
        self.verb = verb

    def import_(self, *options: str) -> Answer:
        return self.verb("import", "job", self.url, "--spider", "site", *options)

    def push(self, requests: Iterable[Request], queue: str = "PriorityQueue") -> None:
        """Put requests into a queue."""
        if queue == "PriorityQueue":
            scores = {dumped(request): -request.priority for request in requests}
            self.client.zadd("site:requests", scores)
        else:
            self.client.lpush("site:requests", *map(dumped, requests))

    def mark(
        self, requests: Iterable[Request], theirs: Any = ScrapyRedisFingerprinter
    ) -> None:
        """Let requests count as seen."""
        fingerprint = theirs().fingerprint
        found = [fingerprint(request).hex() for request in requests]
        self.client.sadd("site:dupefilter", *found)

    def feed(self, kind: str, data: list[str]) -> None:
        """Put start URLs into a key of this kind."""
        for place, one in enumerate(data):
            if kind == "list":
                self.client.rpush("site:start_urls", one)
            elif kind == "set":
                self.client.sadd("site:start_urls", one)
            else:
                self.client.zadd("site:start_urls", {one: -place})

    def everything(self) -> dict[bytes, Any]:
        read: dict[Any, Callable[[bytes], Any]] = {
            b"list": lambda key: self.client.lrange(key, 0, -1),
            b"set": self.client.smembers,
            b"zset": lambda key: self.client.zrange(key, 0, -1, withscores=True),
        }
        return {
            key: read[self.client.type(key)](key) for key in self.client.scan_iter()
        }

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


def pages(count: int, **arguments: Any) -> list[Request]:
    return [Request(f"https://a.example/{n}", **arguments) for n in range(count)]


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
    before = theirs.everything()
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
    assert theirs.everything() == before
    assert sound(theirs.verb, Path("job"))
    found = theirs.verb(
        "check", "job", "https://a.example/done", "https://a.example/new"
    ).out
    assert found == (
        "seen, not pending: https://a.example/done\nnew: https://a.example/new\n"
    )


def test_requests_come_back_as_they_were(theirs: Theirs) -> None:
    as_project(FINGERPRINTER)
    theirs.push(RICH)
    theirs.mark(RICH[:1])
    assert theirs.import_().code == 0
    assert described(restored(Path("job"))) == described(RICH)


def test_pending_start_requests_come_last_and_in_their_order(theirs: Theirs) -> None:
    as_project(
        f"{FINGERPRINTER}SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.FifoQueue'\n"
    )
    starts = pages(3, dont_filter=True, meta={"is_start_request": True})
    others = [Request("https://a.example/x"), Request("https://a.example/y")]
    theirs.push([*starts, *others], "FifoQueue")
    theirs.mark(others)
    assert theirs.import_().code == 0
    assert theirs.listed() == ["x", "y", "0", "1", "2"]


def test_the_score_counts_and_not_the_priority_of_the_request(theirs: Theirs) -> None:
    as_project(FINGERPRINTER)
    first, second = pages(2)
    theirs.client.zadd("site:requests", {dumped(second): -5, dumped(first): 5})
    theirs.mark([first, second])
    assert theirs.import_().code == 0
    out = theirs.verb("list", "job", "--json").out
    assert [json.loads(line)["priority"] for line in out.splitlines()] == [5, -5]
    assert theirs.listed() == ["1", "0"]


def test_a_pickle_runs_nothing_unless_it_is_trusted(theirs: Theirs) -> None:
    as_project(FINGERPRINTER)
    harm = Path("harm")
    requests = pages(1)
    requests.append(Request("https://a.example/x", meta={"x": Harmless(1)}))
    requests.append(Request("https://a.example/y", meta={"x": Harm(harm)}))
    theirs.push(requests)
    theirs.client.zadd(
        "site:requests", {b"\x80\x05garbage": 0, b"": 0, pickle.dumps([1]): 0}
    )
    theirs.mark(requests)
    answer = theirs.import_()
    assert answer.code == 1
    assert "it has a support.jobs.Harmless in it" in answer.out
    assert f"it has a {Path.touch.__module__}.Path.touch in it" in answer.out
    assert "5 could not be read:" in answer.out
    assert "site:requests, request " in answer.out
    assert "it is no dict of a request" in answer.out
    assert theirs.listed() == ["0"]
    assert not harm.exists()
    # The control: this pickle would run.
    theirs.verb("reset", "job", "--yes")
    theirs.import_("--trust-pickles")
    assert harm.exists()
    assert {"0", "x"} <= set(theirs.listed())


def test_no_module_is_imported_because_a_request_names_it(theirs: Theirs) -> None:
    as_project(FINGERPRINTER)
    (Path("evil.py")).write_text("open('harm', 'w').close()\n")
    good = pages(1)
    theirs.push(good)
    theirs.mark(good)
    given = {**good[0].to_dict(spider=SPIDER), "_class": "evil.Request"}
    theirs.client.zadd("site:requests", {pickle.dumps(given): 0})
    given = {**good[0].to_dict(spider=SPIDER), "callback": ["parse"]}
    theirs.client.zadd("site:requests", {pickle.dumps(given): 0})
    answer = theirs.import_()
    assert "the module of evil.Request is not loaded" in answer.out
    assert "it has a callback that is no name: ['parse']" in answer.out
    assert not (Path("harm")).exists()
    assert theirs.listed() == ["0"]


SERIALIZER = "SCHEDULER_SERIALIZER = {!r}\n"


@pytest.mark.parametrize("serializer", ["msgpack", "json", "pickle"])
def test_serializers_that_run_nothing(theirs: Theirs, serializer: str) -> None:
    as_project(FINGERPRINTER + SERIALIZER.format(serializer))
    request = Request("https://a.example/0", meta={"a": [1]}, priority=3)
    given: Any = request.to_dict(spider=SPIDER)
    if serializer == "json":  # which has no bytes
        given |= {"body": "", "headers": {}}
        data = json.dumps(given).encode()
    else:
        data = {"msgpack": msgpack.packb, "pickle": pickle.dumps}[serializer](given)
    theirs.client.zadd("site:requests", {data: -3})
    theirs.mark([request])
    answer = theirs.import_()
    assert answer.code == 0, answer
    assert theirs.listed() == ["0"]


def test_another_serializer_has_to_be_trusted(theirs: Theirs) -> None:
    name = f"serializer_{uuid4().hex}"
    (Path(f"{name}.py")).write_text(
        "import json\nopen('read', 'w').close()\n"
        "loads = lambda data: json.loads(data[::-1])\n"
    )
    as_project(FINGERPRINTER + SERIALIZER.format(name))
    given = {"url": "https://a.example/0"}
    theirs.client.zadd("site:requests", {json.dumps(given).encode()[::-1]: 0})
    theirs.mark(pages(1))
    answer = theirs.import_()
    assert (answer.code, answer.out) == (2, "")
    assert "--trust-pickles reads the data" in answer.err
    assert not (Path("read")).exists()
    assert theirs.import_("--trust-pickles").code == 0
    assert theirs.listed() == ["0"]


# What is seen


@pytest.mark.parametrize(
    "function", [ScrapyRedisFingerprinter, ScrapyRedis07Fingerprinter]
)
def test_useless_marks_are_refused(theirs: Theirs, function: type) -> None:
    requests = pages(3)
    theirs.push(requests)
    theirs.mark([*requests, Request("https://a.example/done")], function)
    answer = theirs.import_()
    assert (answer.code, answer.out) == (1, "")
    setting = f"REQUEST_FINGERPRINTER_CLASS = '{OURS}.{function.__name__}'"
    assert setting in answer.err
    assert "--without-marks imports only the pending requests" in answer.err
    assert not Path("job").exists()
    # Its advice helps.
    as_project(setting)
    assert theirs.import_().code == 0
    assert theirs.verb("check", "job", "https://a.example/done").out.startswith("seen")


def test_without_marks_done_pages_are_new(theirs: Theirs) -> None:
    requests = pages(3)
    theirs.push(requests)
    theirs.mark([*requests, Request("https://a.example/done")])
    answer = theirs.import_("--without-marks")
    assert answer.code == 0
    assert "count as seen" not in answer.out
    assert theirs.listed() == ["0", "1", "2"]
    assert theirs.verb("check", "job", "https://a.example/done").out.startswith("new")


class TheirOwn:
    """A fingerprinter that a project might have."""

    def fingerprint(self, request: Request) -> bytes:
        return request.url.encode()


def test_marks_of_an_unknown_function_are_refused(theirs: Theirs) -> None:
    requests = pages(3)
    theirs.push(requests)
    theirs.mark(requests, TheirOwn)
    answer = theirs.import_()
    assert answer.code == 1
    assert "nor of any version of scrapy-redis" in answer.err
    as_project(f"REQUEST_FINGERPRINTER_CLASS = '{__name__}.TheirOwn'\n")
    assert theirs.import_().code == 0


def test_without_pending_requests_the_origin_of_marks_is_unknown(
    theirs: Theirs,
) -> None:
    as_project(FINGERPRINTER)
    theirs.push(pages(3, dont_filter=True))
    theirs.mark([Request("https://a.example/done")])
    answer = theirs.import_()
    assert answer.code == 1
    assert "--known URL does" in answer.err
    answer = theirs.import_("--known", "done")
    assert answer.code == 2
    assert "--known: it is no URL such as https://example.com/: 'done'" in answer.err
    answer = theirs.import_("--known", "https://a.example/never")
    assert answer.code == 1
    assert "nor of any version of scrapy-redis" in answer.err
    assert theirs.import_("--known", "https://a.example/done").code == 0
    assert theirs.verb("check", "job", "https://a.example/done").out.startswith("seen")


def test_missing_marks_are_reported(theirs: Theirs) -> None:
    as_project(FINGERPRINTER)
    theirs.push(pages(5))
    theirs.mark(pages(3))
    answer = theirs.import_()
    assert answer.code == 0
    assert "2 of the first pending requests are not in 'site:dupef" in answer.out
    assert answer.out.startswith("5 requests pending now\n3 URLs count as seen\n")


def test_a_member_that_is_no_fingerprint_is_named(theirs: Theirs) -> None:
    as_project(FINGERPRINTER)
    theirs.push(pages(1))
    theirs.mark(pages(1))
    theirs.client.sadd("site:dupefilter", b"\xff", "xyz")
    answer = theirs.import_()
    assert answer.code == 1
    assert "1 URL counts as seen" in answer.out
    assert "site:dupefilter: b'xyz' is no fingerprint" in answer.out


def test_many_marks(theirs: Theirs) -> None:
    as_project(FINGERPRINTER)
    theirs.push(pages(1))
    theirs.mark(pages(1))
    others = [f"{n:040x}" for n in range(20_000)]
    theirs.client.sadd("site:dupefilter", *others)
    answer = theirs.import_()
    assert answer.code == 0
    with BloomFilter.open("job/bloomdupe", readonly=True) as seen:
        assert all(seen.contains(bytes.fromhex(one)) for one in others)


@pytest.mark.parametrize("key", ["site:dupefilter", "site:bloomfilter"])
def test_a_bitmap_is_refused(theirs: Theirs, key: str) -> None:
    theirs.push(pages(3))
    theirs.client.setbit(key, 12_345, 1)
    answer = theirs.import_()
    assert (answer.code, answer.out) == (1, "")
    assert f"the key '{key}' is a bitmap, such as scrapy-redis-bloomf" in answer.err
    assert "--without-marks" in answer.err
    assert not Path("job").exists()
    assert theirs.import_("--without-marks").code == 0
    assert theirs.listed() == ["0", "1", "2"]


def test_a_queue_without_marks_is_refused_unless_allowed(
    theirs: Theirs,
) -> None:
    theirs.push(pages(3))
    answer = theirs.import_()
    assert answer.code == 1
    assert "there is no key 'site:dupefilter' (SCHEDULER_DUPEFILTER_KEY)" in answer.err
    assert theirs.import_("--without-marks").code == 0


# Start URLs


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_start_urls_that_no_worker_has_taken(theirs: Theirs, kind: str) -> None:
    data = [f"https://a.example/{n}" for n in range(1, 6)]
    theirs.feed(kind, data)
    before = theirs.everything()
    answer = theirs.import_()
    assert answer.code == 0, answer
    assert answer.out == "5 requests pending now\n"  # no request was in progress
    assert theirs.listed() == ["1", "2", "3", "4", "5"]
    assert theirs.everything() == before
    assert theirs.import_().out.startswith(
        "0 requests pending now\n5 were imported before"
    )


def test_start_urls_as_json_and_invalid_start_urls(theirs: Theirs) -> None:
    form = {"url": "https://a.example/form", "method": "post", "a": "1", "b": "2"}
    query = {"url": "https://a.example/query", "meta": {"n": 7}, "a": "1"}
    bad = ["no URL", '{"method": "GET"}', "[1]", '{"url": 1}', '{"url": "mailto:x"}']
    theirs.feed("list", [json.dumps(form), json.dumps(query), *bad])
    theirs.client.rpush("site:start_urls", b"\xff")
    answer = theirs.import_()
    assert answer.code == 1
    assert answer.out.startswith("2 requests pending now\n6 could not be read:\n")
    assert "site:start_urls, 3: it has blanks in it: 'no URL'" in answer.out
    posted, got = restored(Path("job"))
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


def test_the_key_that_a_spider_names_and_reads_itself(theirs: Theirs) -> None:
    as_project(SPIDERS)
    theirs.client.rpush("starts of site", "https://a.example/1")
    answer = theirs.import_()
    assert answer.code == 0
    assert "Spider 'site' reads 'starts of site' by itself, too" in answer.out
    assert theirs.listed() == ["1"]


def test_a_spider_that_makes_its_own_requests_of_start_urls(theirs: Theirs) -> None:
    as_project(SPIDERS + "    def make_request_from_data(self, data): ...\n")
    theirs.client.rpush("starts of site", "https://a.example/1")
    answer = theirs.import_()
    assert answer.code == 1
    assert answer.out.startswith("0 requests pending now\n1 could not be read:\n")
    assert "let scrapy-redis take them into its queue first" in answer.out


# Names, and what is refused


def test_names_follow_the_settings(theirs: Theirs) -> None:
    as_project(
        f"{FINGERPRINTER}SCHEDULER_QUEUE_KEY = 'q %(spider)s'\n"
        "SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.SpiderStack'\n"
        "SCHEDULER_DUPEFILTER_KEY = 'seen'\nREDIS_START_URLS_KEY = 's %(name)s'\n"
    )
    first, second, third = pages(3)
    theirs.client.lpush("q site", dumped(first), dumped(second))
    theirs.client.rpush("s site", third.url)
    theirs.mark([first, second])
    theirs.client.rename("site:dupefilter", "seen")
    answer = theirs.import_()
    assert answer.code == 0, answer
    assert theirs.listed() == ["1", "0", "2"]


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ("SCHEDULER_QUEUE_KEY = 'a'", 1, "nothing of scrapy-redis is there for spider"),
        ("SCHEDULER_QUEUE_KEY = '%(name'", 2, "'%(name' is no name of a key"),
        ("SCHEDULER_QUEUE_CLASS = 'my.Queue'", 2, "its order is not known here"),
        ("SCHEDULER_QUEUE_CLASS = 'a.LifoQueue'", 1, "is a zset, but"),
        ("SCHEDULER_DUPEFILTER_KEY = 'site:requests'", 1, "no set of fingerprints"),
        ("REDIS_START_URLS_KEY = 'text'", 1, "no list or set of start URLs"),
    ],
)
def test_mismatches_are_refused(
    theirs: Theirs, settings: str, code: int, message: str
) -> None:
    as_project(settings)
    theirs.client.set("text", "x")
    theirs.push(pages(1))
    answer = theirs.import_()
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert not Path("job").exists()


def test_a_job_of_another_spider_and_a_missing_job(theirs: Theirs) -> None:
    theirs.feed("list", ["https://a.example/1"])
    answer = theirs.verb("import", "job", theirs.url)
    assert answer.code == 2
    assert "--spider NAME names the spider for it" in answer.err
    assert theirs.verb("import", "job", theirs.url, "--spider", "site").code == 0
    assert theirs.verb("import", "job", theirs.url).code == 0
    assert theirs.verb("import", "job", theirs.url, "--spider", "other").code == 2


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("redis://:open-sesame@127.0.0.1:{port}", 1, "no Redis answers there"),
        ("redis://:open-sesame@127.0.0.1:x", 2, "cannot be read"),
        ("redis://:open-sesame@127.0.0.1#seen", 2, "leave out the #"),
        ("unix:///nowhere?password=open-sesame", 1, "no Redis answers there"),
        ("unix://nobody:open-sesame@{socket}", 1, "Redis refuses this user"),
    ],
)
def test_a_server_that_does_not_answer(
    verb: Verb, redis_server: RedisServer, url: str, code: int, message: str
) -> None:
    given = url.format(port=kept_port(), socket=redis_server.socket)
    answer = verb("import", "job", given, "--spider", "site")
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert PASSWORD not in answer.err
    assert not Path("job").exists()


def test_with_a_password_and_no_right_to_write(
    theirs: Theirs, redis_server: RedisServer
) -> None:
    """Nothing is written there: the rights are those that the document names."""
    as_project(FINGERPRINTER)
    theirs.push(pages(3))
    theirs.mark(pages(3))
    theirs.feed("set", ["https://a.example/start"])
    rights = (
        "+info +type +llen +lrange +zcard +zrange +zrevrange +scard +sscan +sismember"
    )
    theirs.client.acl_setuser(
        "reader",
        enabled=True,
        passwords=[f"+{PASSWORD}"],
        keys=["site:*"],
        commands=rights.split(),
    )
    theirs.url = f"unix://reader:{PASSWORD}@{redis_server.socket}"
    answer = theirs.import_()
    theirs.client.acl_deluser("reader")
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


def test_killed_in_the_middle_and_run_again(theirs: Theirs) -> None:
    """Requests with dont_filter, of which no filter can tell that they were taken."""
    as_project(FINGERPRINTER)
    same = [
        Request("https://a.example/", dont_filter=True, meta={"n": n, "text": LONG})
        for n in range(1_000)
    ]
    theirs.client.zadd("site:requests", {dumped(one): 0 for one in [*same, *pages(1)]})
    theirs.mark(pages(1))
    before = theirs.everything()
    words = ["import", "job", theirs.url, "--spider", "site"]
    killed_after(COMMIT, 2, *words, cwd=Path.cwd())
    some = len(urls(theirs.verb, Path("job")))
    assert 0 < some < len(same)
    answer = theirs.verb("import", "job", theirs.url)
    assert answer.code == 0
    assert f"{some:,} were imported before" in answer.out
    assert len(urls(theirs.verb, Path("job"))) == len(same) + 1
    # Once more, nothing comes.
    assert theirs.verb("import", "job", theirs.url).out.startswith(
        "0 requests pending now\n1,001 were"
    )
    assert len(urls(theirs.verb, Path("job"))) == len(same) + 1
    assert theirs.everything() == before


@pytest.mark.usefixtures("verb")
@pytest.mark.parametrize("queue", QUEUES)
def test_a_worker_that_still_runs_is_noticed(theirs: Theirs, queue: str) -> None:
    as_project(f"{FINGERPRINTER}SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.{queue}'\n")
    requests = pages(1_200)
    theirs.push(requests, queue)
    theirs.mark(requests)
    project = Project(None, "site")
    crawl = RedisJob(theirs.url, project, counted)
    some = crawl.requests(project, Problems())
    next(some)
    crawl.check_unchanged()
    if queue == "PriorityQueue":
        theirs.client.zpopmin("site:requests")
    else:
        theirs.client.rpop("site:requests")
    with pytest.raises(StoreError, match="has changed meanwhile, so a program still"):
        list(some)
    theirs.push([Request("https://a.example/more")], queue)  # as many as before
    with pytest.raises(StoreError, match="has changed meanwhile, so a program still"):
        crawl.check_unchanged()
    crawl.close()


# The real one

PAGES = 200
LINKS = 5


def linked(number: int) -> str:
    return links(*(f"/{(number * 3 + place) % PAGES}" for place in range(LINKS)))


@pytest.mark.parametrize(
    "queue",
    ["PriorityQueue", *(pytest.param(q, marks=pytest.mark.slow) for q in QUEUES[1:])],
)
def test_a_crawl_that_scrapy_redis_has_begun_is_finished_here(
    theirs: Theirs, crawl: Crawl, queue: str
) -> None:
    """Two of its workers, stopped in good order: nothing is lost, and none is twice."""
    needs_package("scrapy_redis")
    served = {f"/{number}": linked(number) for number in range(PAGES)}
    crawl.site.pages = {"/start": linked(0), **served}
    queue_class = f"scrapy_redis.queue.{queue}"
    workers = [
        crawl.start(
            Site,
            starts=["/start"],
            ADDONS={},
            CLOSESPIDER_PAGECOUNT=PAGES // 5,
            DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter",
            JOBDIR=None,
            REDIS_URL=theirs.url,
            REQUEST_FINGERPRINTER_CLASS=f"{OURS}.ScrapyRedisFingerprinter",
            SCHEDULER="scrapy_redis.scheduler.Scheduler",
            SCHEDULER_PERSIST=True,
            SCHEDULER_QUEUE_CLASS=queue_class,
        )
        for _ in range(2)
    ]
    assert [worker.wait().status for worker in workers] == [0, 0]
    assert 0 < len(crawl.site.log) < PAGES
    as_project(f"{FINGERPRINTER}SCHEDULER_QUEUE_CLASS = '{queue_class}'\n")
    size = theirs.client.zcard if queue == "PriorityQueue" else theirs.client.llen
    pending = size("site:requests")
    job = crawl.folder / "job"
    answer = theirs.verb("import", job, theirs.url, "--spider", "site")
    assert answer.out.startswith(f"{pending} requests pending now\n"), answer
    crawl.run(
        Site,
        starts=["/start"],
        REQUEST_FINGERPRINTER_CLASS=f"{OURS}.ScrapyRedisFingerprinter",
    )
    # Each fetches the start page, which is not marked; no page links to it.
    asked = [path for path in crawl.site.requested if path != "/start"]
    assert sorted(asked) == sorted(served)
