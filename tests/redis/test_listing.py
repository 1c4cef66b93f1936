"""``list`` of a crawl on Redis, compared with the requests that workers get."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Request
from support.jobs import SPIDER, run
from support.repetition import repeated
from support.standing_crawl import StandingCrawl, lines_of_start, offer_of

from bloomdupe.crawl.engines.on_redis.messages import message_of
from bloomdupe.jobs.on_redis.requests_on_redis import RequestsOnRedis
from bloomdupe.jobs.view import ListedRequest
from bloomdupe.redis import frontier_reader
from bloomdupe.redis.partition import Offer, RedisLease
from bloomdupe.redis.shared_frontier import SharedFrontier
from bloomdupe.requests.layout import summary_of
from bloomdupe.requests.serializer import Serializer

Listing = list[dict[str, Any]]


@pytest.fixture
def listed(url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Listing]:
    """Return the output of ``list --json`` for the crawl."""

    def ask(*options: str) -> Listing:
        answer = run(capsys, "list", url, "--json", *options)
        assert (answer.code, answer.err) == (0, "")
        return [json.loads(line) for line in answer.out.splitlines()]

    return ask


@pytest.fixture(params=repeated([(7, 1 << 20), (1_000, 1), (1, 1 << 20)], 2))
def portions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one script read so many requests, and about so many bytes of them."""
    requests, size = request.param
    monkeypatch.setattr(frontier_reader, "AT_ONCE", requests)
    monkeypatch.setattr(frontier_reader, "BYTES_AT_ONCE", size)
    monkeypatch.setattr(frontier_reader, "SLOTS_AT_ONCE", requests)


def url_of(lease: RedisLease) -> str:
    return summary_of(message_of(lease.payload).body).url


@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize("fifo", [False, True])
def test_each_slot_is_listed_in_the_order_in_which_it_is_handed_out(
    url: str, listed: Callable[..., Listing], *, fifo: bool
) -> None:
    rng = random.Random(1)
    with SharedFrontier.open(url, 1_000, partitions=3, fifo=fifo) as one:
        for number in range(200):
            request = Request(
                f"https://a.example/{number}",
                priority=rng.choice([-7, 0, 0, 1, 10**12]),
            )
            offer = offer_of(request, f"{number % 4}.example")
            one.offer([offer._replace(start=rng.random() < 0.3)])
        found = listed()
        assert len(found) == 200
        one.tend()
        handed_out = one.lease(1_000, 1_000)
        for slot in map("{}.example".format, range(4)):
            expected = [url_of(lease) for lease in handed_out if lease.slot == slot]
            assert [o["url"] for o in found if o["slot"] == slot] == expected
            assert [o["url"] for o in listed("--slot", slot)] != []
        by_url = {o["url"]: o["priority"] for o in found}
        assert by_url == {url_of(lease): lease.priority for lease in handed_out}
        under_way = listed()
        assert {o["worker"] for o in under_way} == {one.worker}
        assert {o["url"] for o in under_way} == by_url.keys()


@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize("seed", repeated(range(3)))
def test_requests_that_stay_pending_are_listed_once(url: str, seed: int) -> None:
    """Between two portions, workers lease, settle and offer requests."""
    rng = random.Random(seed)
    crawl = StandingCrawl(url)
    crawl.fill(3, 60)
    before = {
        f"https://host{host}.example/{number}"
        for host in range(3)
        for number in range(60)
    }
    gone: set[str] = set()
    met: list[str] = []
    for found in RequestsOnRedis(url):
        assert isinstance(found, ListedRequest)
        if found.worker is None:
            met.append(found.url)
        if rng.random() < 0.2:
            worker = rng.choice([*crawl.workers])
            for host in range(3):
                crawl.workers[worker].ask_again(f"host{host}.example")
            crawl.lease(worker, rng.randrange(1, 4))
            gone |= {url_of(lease) for lease in crawl.leased[worker]}
            crawl.settle(worker, len(crawl.leased[worker]))
            new = f"https://host{rng.randrange(3)}.example/new{len(met)}"
            request = Request(new, priority=rng.randrange(3))
            crawl.offer(offer_of(request, request.url.split("/")[2]))
    assert gone
    assert before - gone
    assert len(met) == len(set(met))
    assert before - gone <= set(met)


def test_the_details_of_a_request(
    url: str, listed: Callable[..., Listing], capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = StandingCrawl(url, workers=["one"])
    request = Request(
        "https://b.example/form", SPIDER.parse_item, "POST", priority=3, body=b"x"
    )
    crawl.offer(offer_of(request, "b.example"), lines_of_start(b"0 a\n", b"0 b\n"))
    form = {
        "slot": "b.example",
        "method": "POST",
        "url": "https://b.example/form",
        "priority": 3,
        "callback": "parse_item",
        "payload": b64encode(Serializer(SPIDER).dump(request)).decode(),
    }
    lines = {"slot": "", "priority": 0, "lines": 2}
    found = listed()
    assert form in found
    assert lines in found
    assert len(found) == 2
    assert listed("--pattern", "form$") == listed("--slot", "b.example") == [form]
    text = run(capsys, "list", url, "--slot", "b.example").out
    assert text == "b.example  3  POST  parse_item  https://b.example/form\n"
    crawl.lease("one", 2)
    assert form | {"worker": "one"} in listed()
    assert lines | {"worker": "one"} in listed()
    said = run(capsys, "list", url).out.splitlines()
    assert sorted(said) == [
        "(no slot)  0  2 lines of items that start() has yielded  in progress with one",
        "b.example  3  POST  parse_item  https://b.example/form  in progress with one",
    ]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ([], 300),
        (["--slot", "host1.example"], 100),
        (["--pattern", "nowhere"], 0),
        (["--pattern", r"/9\d$"], 30),
        (["--pattern", "/7$", "--slot", "host2.example"], 1),
        (["--limit", "5"], 5),
    ],
)
def test_slot_pattern_and_limit(
    url: str, listed: Callable[..., Listing], options: list[str], lines: int
) -> None:
    StandingCrawl(url).fill(3, 100)
    assert len(listed(*options)) == lines


def test_unreadable_requests_are_listed(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = StandingCrawl(url)
    strange = [b"", b"xyz", b"R\x01nnonsense", b"I\x00nonsense"]
    strange.append(b"R\x01n" + b"\x92\xd9\x0ahttp://a\nb\xc1")
    crawl.offer(
        *(Offer("a.example", b"%d" % n, body) for n, body in enumerate(strange))
    )
    answer = run(capsys, "list", url)
    assert (answer.code, answer.out.count("\n")) == (0, 5)
    assert answer.out.count("a.example  cannot be read: ") == 5
    assert run(capsys, "list", url, "--json").out.count('"problem"') == 5
    assert run(capsys, "list", url, "--pattern", ".").out == ""


def test_names_from_the_web_break_no_line(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = StandingCrawl(url)
    request = Request("https://b.example/")
    crawl.offer(offer_of(request, "b\x1b[2J\n.example"))
    assert run(capsys, "list", url).out.splitlines() == [
        r"b\x1b[2J\n.example  0  GET  parse  https://b.example/"
    ]


def test_contradictory_options_are_refused(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    StandingCrawl(url)
    assert run(capsys, "list", url, "--reason", "503").code == 2
    assert run(capsys, "list", url, "--pattern", "(").code == 2
