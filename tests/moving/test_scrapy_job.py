"""Jobs that Scrapy itself has written, taken over; judged by Scrapy's own scheduler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from scrapy import FormRequest, Request, squeues
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.request import fingerprint
from support.jobs import (
    COMMIT,
    LONG,
    RICH,
    SPIDER,
    Harm,
    Harmless,
    SiteSpider,
    Verb,
    as_project,
    described,
    killed_after,
    restored,
    sound,
    urls,
)
from support.repetition import repeated

# Scrapy before 2.19 leaves files of queues open in which nothing is.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

QUEUES = [
    name
    for serializer in ("Pickle", "Marshal")
    for order in ("Lifo", "Fifo")
    for kind in ("Disk", "SQLite")
    if hasattr(squeues, name := f"{serializer}{order}{kind}Queue")
]


def scheduler(jobdir: Path, queue: str = "PickleLifoDiskQueue") -> Scheduler:
    """Open the scheduler that Scrapy would open."""
    start = queue.replace("Lifo", "Fifo")
    crawler = Crawler(
        SiteSpider, {"SCHEDULER_START_DISK_QUEUE": f"scrapy.squeues.{start}"}
    )
    crawler.spider = SPIDER
    opened = Scheduler(
        RFPDupeFilter(str(jobdir)),
        str(jobdir),
        getattr(squeues, queue),
        squeues.LifoMemoryQueue,
        stats=MemoryStatsCollector(crawler),
        pqclass=ScrapyPriorityQueue,
        crawler=crawler,
    )
    opened.open(SPIDER)
    return opened


def stopped(
    jobdir: Path, requests: Iterable[Request], done: int, queue: str = QUEUES[0]
) -> Path:
    """Make a job with these requests, of which so many are done."""
    jobdir.mkdir(exist_ok=True)
    scrapys = scheduler(jobdir, queue)
    for request in requests:
        assert scrapys.enqueue_request(request)
    for _ in range(done):
        assert scrapys.next_request() is not None
    scrapys.close("shutdown")
    return jobdir


def many() -> list[Request]:
    """Return requests of all kinds, with different orders."""
    requests = [Request(f"https://a.example/{n}", priority=n % 3) for n in range(40)]
    requests += [
        Request(
            f"https://a.example/start/{n}",
            dont_filter=True,
            meta={"is_start_request": True},
        )
        for n in range(9)
    ]
    requests += [
        FormRequest("https://a.example/form", formdata={"a": "1"}, priority=9),
        *RICH,
    ]
    return requests


def rest(jobdir: Path, queue: str) -> list[dict[str, Any]]:
    """Return the pages with which Scrapy would continue, in its order."""
    copy = jobdir.with_name(jobdir.name + ".copy")
    shutil.copytree(jobdir, copy)
    scrapys = scheduler(copy, queue)
    found = []
    while (request := scrapys.next_request()) is not None:
        found.append(request.to_dict(spider=SPIDER))
    scrapys.close("finished")
    shutil.rmtree(copy)
    return found


@pytest.mark.parametrize("queue", repeated(QUEUES, by_default=3))
def test_pending_requests_are_imported_in_scrapys_order(
    verb: Verb, tmp_path: Path, queue: str
) -> None:
    requests = many()
    job = stopped(tmp_path / "job", requests, 10, queue)
    before = {path: path.read_bytes() for path in job.rglob("*") if path.is_file()}
    expected = rest(job, queue)
    as_project(f"SCHEDULER_DISK_QUEUE = 'scrapy.squeues.{queue}'\n")
    answer = verb("import", job, "--spider", "site")
    assert answer.code == 0, answer
    assert answer.out.startswith(f"{len(expected)} requests pending now\n")
    assert "42 URLs count as seen" in answer.out
    out = verb("list", job, "--json", "--slot", "a.example").out
    listed = [json.loads(line) for line in out.splitlines()]
    assert [(one["url"], one["method"], one["priority"]) for one in listed] == [
        (one["url"], one["method"], one["priority"])
        for one in expected
        if not one["url"].startswith("data:")
    ]
    assert len(urls(verb, job)) == len(expected)
    assert {path: path.read_bytes() for path in before} == before
    assert sound(verb, job)
    marked = [r.url for r in requests if not r.dont_filter and r.method == "GET"]
    assert "new: " not in verb("check", job, *marked).out


def test_requests_come_back_as_they_were(verb: Verb, tmp_path: Path) -> None:
    requests = many()
    job = stopped(tmp_path / "job", requests, 0)
    assert verb("import", job, "--spider", "site").code == 0
    assert described(restored(job)) == described(requests)


HEX = "".join(f"{fingerprint(Request(f'https://a.example/{n}')).hex()}\n" for n in "ab")
BINARY = b"".join(
    b"\x00\x14" + fingerprint(Request(f"https://a.example/{n}")) for n in "cd"
)


@pytest.mark.parametrize(
    ("content", "known", "torn"),
    [
        (HEX.encode(), "ab", False),
        (HEX.replace("\n", "\r\n").encode(), "ab", False),
        (BINARY, "cd", False),
        (HEX.encode() + BINARY, "abcd", False),
        (b"", "", False),
        (BINARY[:-3], "c", True),
        (BINARY[:23], "c", True),
        (HEX.encode()[:-1], "a", True),
        (HEX.encode() + b"\xff\xff", "ab", True),
    ],
)
def test_fingerprints_of_all_versions(
    verb: Verb, tmp_path: Path, content: bytes, known: str, torn: bool
) -> None:
    job = stopped(tmp_path / "job", [Request("https://z.example/")], 0)
    (job / "requests.seen").write_bytes(content)
    answer = verb("import", job, "--spider", "site")
    assert answer.code == int(torn)
    assert ("it is torn at byte" in answer.out) == torn
    for name in "abcd":
        found = verb("check", job, f"https://a.example/{name}").out
        assert found.startswith("seen") == (name in known)


@pytest.mark.parametrize("queue", [name for name in QUEUES if "SQLite" not in name])
def test_a_job_that_was_not_stopped_in_good_order_is_refused(
    verb: Verb, tmp_path: Path, queue: str
) -> None:
    job = stopped(tmp_path / "job", many(), 5, queue)
    going_on = scheduler(job, queue)
    going_on.enqueue_request(Request("https://a.example/more"))
    assert going_on.next_request() is not None
    # And here it is killed.
    for queue_class in going_on.dqs.queues.values():  # type: ignore[union-attr]
        for name in ("f", "headf"):
            if hasattr(queue_class, name):
                getattr(queue_class, name).flush()
    answer = verb("import", job, "--spider", "site")
    assert (answer.code, answer.out) == (1, "")
    assert "requests of the job are missing" in answer.err
    assert not (job / "bloomdupe").exists()
    going_on.close("shutdown")
    assert verb("import", job, "--spider", "site").code == 0
    assert json.loads(verb("info", job, "--json").out)["job"]["state"] == "not begun"


def test_a_job_that_was_never_stopped_is_refused(verb: Verb, tmp_path: Path) -> None:
    job = stopped(tmp_path / "job", many(), 5)
    (job / "requests.queue/active.json").unlink()
    answer = verb("import", job, "--spider", "site")
    assert (answer.code, answer.out) == (1, "")
    assert "Let Scrapy go on with it, and stop it by Ctrl-C once" in answer.err


def test_files_that_are_newer_than_the_stop_are_refused(
    verb: Verb, tmp_path: Path
) -> None:
    job = stopped(tmp_path / "job", many(), 5)
    active = job / "requests.queue/active.json"
    before = active.stat().st_mtime_ns - 10**9
    os.utime(active, ns=(before, before))
    answer = verb("import", job, "--spider", "site")
    assert answer.code == 1
    remedy = f"touch {job}/requests.queue/active.json"
    assert remedy in answer.err
    subprocess.run(remedy.split(), check=True)
    assert verb("import", job, "--spider", "site").code == 0


def test_a_pickle_runs_nothing_unless_it_is_trusted(verb: Verb, tmp_path: Path) -> None:
    harm = tmp_path / "harm"
    requests = [
        Request("https://a.example/1"),
        Request("https://a.example/2", meta={"x": Harmless(1)}),
        Request("https://a.example/3", meta={"x": Harm(harm)}),
    ]
    job = stopped(tmp_path / "job", requests, 0)
    shutil.copytree(job, tmp_path / "trusted")
    answer = verb("import", job, "--spider", "site")
    assert answer.code == 1
    assert "it has a support.jobs.Harmless in it" in answer.out
    assert f"it has a {Path.touch.__module__}.Path.touch in it" in answer.out
    assert urls(verb, job) == ["https://a.example/1"]
    assert not harm.exists()
    # The control: this pickle would run.
    trusted = tmp_path / "trusted"
    (trusted / "requests.queue/active.json").touch()
    verb("import", trusted, "--spider", "site", "--trust-pickles")
    assert harm.exists()
    assert "https://a.example/2" in urls(verb, trusted)


def test_killed_in_the_middle_and_run_again(verb: Verb, tmp_path: Path) -> None:
    """Requests with dont_filter, of which no filter can tell that they were taken."""
    same = [
        Request("https://a.example/", dont_filter=True, meta={"n": n, "text": LONG})
        for n in range(1_000)
    ]
    job = stopped(tmp_path / "job", same, 0)
    killed_after(COMMIT, 2, "import", job, "--spider", "site", cwd=tmp_path)
    some = len(urls(verb, job))
    assert 0 < some < len(same)
    answer = verb("import", job)
    assert answer.code == 0
    assert f"{some:,} were imported before" in answer.out
    assert len(urls(verb, job)) == len(same)
    # Once more, nothing comes.
    assert verb("import", job).out.startswith(
        "0 requests pending now\n1,000 were imported"
    )
    assert len(urls(verb, job)) == len(same)


def test_texts_of_lxml_are_plain_values(verb: Verb, tmp_path: Path) -> None:
    """As in ``meta["link_text"]`` of the requests that a ``CrawlSpider`` yields."""
    page = HtmlResponse("https://a.example/", body=b"<a href=/1>One <b>more</b></a>")
    (link,) = LinkExtractor().extract_links(page)
    assert type(link.text) is not str
    request = Request(link.url, meta={"rule": 0, "link_text": link.text})
    job = stopped(tmp_path / "job", [request], 0)
    assert verb("import", job, "--spider", "site").code == 0
    assert urls(verb, job) == [link.url]


def mixed(number: int, text: str = "") -> list[Request]:
    """Return requests of which some cannot be read without trust."""
    return [
        Request(
            f"https://a.example/{n}",
            cb_kwargs={"text": text},
            meta={"x": Harmless(n)} if n % 7 in (0, 1, 4) else None,
            dont_filter=n % 2 == 0,
            priority=n % 3,
        )
        for n in range(number)
    ]


def test_unreadable_requests_stay_pending(verb: Verb, tmp_path: Path) -> None:
    requests = mixed(50)
    every = sorted(request.url for request in requests)
    job = stopped(tmp_path / "job", requests, 0)
    readable = sorted(request.url for request in requests if not request.meta)
    missing = len(every) - len(readable)
    for taken in (len(readable), 0):
        answer = verb("import", job, "--spider", "site")
        assert answer.code == 1
        assert answer.out.startswith(f"{taken} requests pending now\n")
        assert f"{missing} could not be read:\n" in answer.out
        assert f"{missing} requests are missing in this job" in answer.out
        assert "--trust-pickles" in answer.out
        assert sorted(urls(verb, job)) == readable
    for taken in (missing, 0):
        answer = verb("import", job, "--trust-pickles")
        assert answer.code == 0
        assert answer.out.startswith(f"{taken} requests pending now\n")
        assert "missing" not in answer.out
        assert sorted(urls(verb, job)) == every


def test_killed_without_trust_and_run_again_with_it(verb: Verb, tmp_path: Path) -> None:
    requests = mixed(1_400, LONG)
    job = stopped(tmp_path / "job", requests, 0)
    killed_after(COMMIT, 2, "import", job, "--spider", "site", cwd=tmp_path)
    assert 0 < len(urls(verb, job)) < sum(not request.meta for request in requests)
    assert verb("import", job, "--trust-pickles").code == 0
    assert sorted(urls(verb, job)) == sorted(request.url for request in requests)


def test_a_folder_without_a_job_is_refused(verb: Verb, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    answer = verb("import", tmp_path / "empty", "--spider", "site")
    assert answer.code == 1
    assert "is a directory without a job" in answer.err
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("trusted", [False, True])
def test_a_state_that_is_not_trusted_is_put_aside(
    tmp_path: Path, verb: Verb, trusted: bool
) -> None:
    job = stopped(tmp_path / "job", [Request("https://a.example/")], 0)
    state = job / "spider.state"
    state.write_bytes(b"a pickle")
    trust = ["--trust-pickles"] if trusted else []
    out = verb("import", str(job), "--spider", "site", *trust).out
    assert state.exists() == trusted
    aside = job / "spider.state.not-imported"
    assert aside.exists() != trusted
    assert ("is read by the crawl itself" if trusted else "put aside") in out
