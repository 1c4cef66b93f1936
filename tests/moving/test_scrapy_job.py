"""Jobs that Scrapy itself has written, taken over; judged by Scrapy's own scheduler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from scrapy import FormRequest, Request, squeues
from scrapy.core.scheduler import Scheduler
from scrapy.utils.request import fingerprint
from support.jobs import (
    LONG,
    PROJECT,
    RICH,
    SPIDER,
    Harm,
    Harmless,
    SiteSpider,
    Verb,
    as_project,
    described,
    idle_crawler,
    killed_after,
    make_job,
    restored,
    urls,
)
from support.repetition import repeated

from bloomdupe import BloomFilter

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


def settings_of(queue: str) -> dict[str, str]:
    """Return the settings of a crawl with this class of queues."""
    start = queue.replace("Lifo", "Fifo")
    return {
        "SCHEDULER_DISK_QUEUE": f"scrapy.squeues.{queue}",
        "SCHEDULER_START_DISK_QUEUE": f"scrapy.squeues.{start}",
    }


def scheduler(jobdir: Path, queue: str = "PickleLifoDiskQueue") -> Scheduler:
    """Open the scheduler that Scrapy would open."""
    crawler = idle_crawler(
        JOBDIR=str(jobdir),
        SCHEDULER_PRIORITY_QUEUE="scrapy.pqueues.ScrapyPriorityQueue",
        **settings_of(queue),
    )
    crawler.spider = SPIDER
    opened = Scheduler.from_crawler(crawler)
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
        Request("https://a.example/again", dont_filter=True),
        FormRequest("https://a.example/form", formdata={"a": "1"}, priority=9),
        *RICH,
    ]
    return requests


def rest(jobdir: Path, queue: str) -> list[Request]:
    """Return the requests with which Scrapy would continue, in its order."""
    copy = jobdir.with_name(jobdir.name + ".copy")
    shutil.copytree(jobdir, copy)
    scrapys = scheduler(copy, queue)
    found = []
    while (request := scrapys.next_request()) is not None:
        found.append(request)
    scrapys.close("finished")
    shutil.rmtree(copy)
    return found


@pytest.fixture
def verb(verb: Verb) -> Verb:
    """Return a function that runs a verb, in the folder of a project."""
    as_project(PROJECT)
    return verb


def as_project_with(queue: str) -> None:
    """Make the working directory that of a project with this class of queues."""
    lines = (f"{name} = {value!r}\n" for name, value in settings_of(queue).items())
    as_project(PROJECT + "".join(lines))


IMPORT = ("--spider", "site", "--trust-pickles")


def contents(job: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in job.rglob("*") if path.is_file()}


@pytest.mark.parametrize("queue", repeated(QUEUES, first=3))
def test_pending_requests_are_imported_in_scrapys_order(
    verb: Verb, tmp_path: Path, queue: str
) -> None:
    requests = many()
    job = stopped(tmp_path / "job", requests, 10, queue)
    before = contents(job)
    expected = rest(job, queue)
    as_project_with(queue)
    answer = verb("import", job, *IMPORT)
    assert answer.code == 0, answer
    assert answer.out.startswith(f"{len(expected)} requests pending now\n")
    assert "42 URLs count as seen" in answer.out
    out = verb("list", job, "--json", "--slot", "a.example").out
    listed = [json.loads(line) for line in out.splitlines()]
    assert [(one["url"], one["method"], one["priority"]) for one in listed] == [
        (one.url, one.method, one.priority)
        for one in expected
        if not one.url.startswith("data:")
    ]
    assert {path: path.read_bytes() for path in before} == before
    assert sorted(path.name for path in job.iterdir()) == [
        "bloomdupe",
        "requests.queue",
        "requests.seen",
    ]
    assert verb("verify", job).code == 0
    marked = [r.url for r in requests if not r.dont_filter and r.method == "GET"]
    assert "new: " not in verb("check", job, *marked).out
    with BloomFilter.open(job / "bloomdupe", readonly=True) as seen:
        for one in expected:
            known = not one.dont_filter or "is_start_request" in one.meta
            assert seen.contains(fingerprint(one)) == known, one
    assert described(restored(job)) == described(expected)


HEX = "".join(f"{fingerprint(Request(f'https://a.example/{n}')).hex()}\n" for n in "ab")
BINARY = b"".join(
    b"\x00\x14" + fingerprint(Request(f"https://a.example/{n}")) for n in "cd"
)


@pytest.mark.parametrize(
    ("content", "known", "torn"),
    [
        (HEX.encode(), "ab", False),
        (BINARY, "cd", False),
        (HEX.encode() + BINARY, "abcd", False),
        (b"", "", False),
        (BINARY[:-3], "c", True),
        (HEX.encode()[:-1], "a", True),
        (HEX.encode() + b"\xff\xff", "ab", True),
    ],
)
def test_fingerprints_of_all_versions(
    verb: Verb, tmp_path: Path, content: bytes, known: str, torn: bool
) -> None:
    job = stopped(tmp_path / "job", [Request("https://z.example/")], 0)
    (job / "requests.seen").write_bytes(content)
    answer = verb("import", job, *IMPORT)
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
    for path in (job / "requests.queue", *(job / "requests.queue").rglob("*")):
        earlier = path.stat().st_mtime_ns - 10**9  # another process takes a second
        os.utime(path, ns=(earlier, earlier))
    going_on = scheduler(job, queue)
    going_on.enqueue_request(Request("https://a.example/more"))
    assert going_on.next_request() is not None
    # And here it is killed.
    for queue_class in going_on.dqs.queues.values():  # type: ignore[union-attr]
        for name in ("f", "headf"):
            if hasattr(queue_class, name):
                getattr(queue_class, name).flush()
    as_project_with(queue)
    answer = verb("import", job, *IMPORT)
    assert (answer.code, answer.out) == (1, "")
    assert "requests of the job are missing" in answer.err
    assert not (job / "bloomdupe").exists()
    going_on.close("shutdown")
    assert verb("import", job, *IMPORT).code == 0
    assert json.loads(verb("info", job, "--json").out)["job"]["state"] == "not begun"


def test_files_that_are_newer_than_the_stop_are_refused(
    verb: Verb, tmp_path: Path
) -> None:
    job = stopped(tmp_path / "job", many(), 5)
    active = job / "requests.queue/active.json"
    before = active.stat().st_mtime_ns - 10**9
    os.utime(active, ns=(before, before))
    answer = verb("import", job, *IMPORT)
    assert answer.code == 1
    remedy = f"touch {job}/requests.queue/active.json"
    assert remedy in answer.err
    subprocess.run(remedy.split(), check=True)
    assert verb("import", job, *IMPORT).code == 0
    other = stopped(tmp_path / "other", many(), 5)
    (other / "requests.queue/active.json").unlink()
    answer = verb("import", other, *IMPORT)
    assert (answer.code, answer.out) == (1, "")
    assert "Let Scrapy go on with it, and stop it by Ctrl-C once" in answer.err


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("SCHEDULER_DISK_QUEUE = 'scrapy.squeues.PickleFifoDiskQueue'", "Not a dir"),
        ("SCHEDULER_START_DISK_QUEUE = None", "nothing has read requests.queue/0s"),
    ],
)
def test_queues_of_other_classes_are_refused(
    verb: Verb, tmp_path: Path, settings: str, why: str
) -> None:
    job = stopped(tmp_path / "job", many(), 5)
    as_project(f"{PROJECT}{settings}\n")
    before = contents(job)
    answer = verb("import", job, *IMPORT)
    assert (answer.code, answer.out) == (1, "")
    assert why in answer.err
    assert "must be those with which the crawl was run" in answer.err
    assert contents(job) == before


# Trust


def test_a_pickle_runs_nothing_unless_it_is_trusted(verb: Verb, tmp_path: Path) -> None:
    harm = tmp_path / "harm"
    requests = [
        Request("https://a.example/1"),
        Request("https://a.example/2", meta={"x": Harm(harm)}),
    ]
    job = stopped(tmp_path / "job", requests, 0)
    answer = verb("import", "seen", job, "--spider", "site", "--fingerprints-only")
    assert answer == (0, "0 requests pending now\n2 URLs count as seen\n", "")
    assert not harm.exists()
    assert verb("check", "seen", "https://a.example/1").out.startswith("seen")
    # The control: this pickle would run.
    verb("import", job, *IMPORT)
    assert harm.exists()


def test_a_job_without_pending_requests_needs_no_trust(
    verb: Verb, tmp_path: Path
) -> None:
    job = stopped(tmp_path / "job", [Request("https://a.example/")], 1)
    answer = verb("import", job, "--spider", "site")
    assert answer == (0, "0 requests pending now\n1 URL counts as seen\n", "")
    with BloomFilter.open(job / "bloomdupe", readonly=True) as seen:
        assert seen.notes["run"] == "imported"


@pytest.mark.parametrize("options", [IMPORT, (*IMPORT[:2], "--fingerprints-only")])
@pytest.mark.parametrize("here", [False, True])
def test_a_state_comes_along_if_it_is_trusted(
    tmp_path: Path, verb: Verb, options: tuple[str, ...], here: bool
) -> None:
    """And if not, no crawl of the job may load it."""
    trusted = options == IMPORT
    source = stopped(tmp_path / "job", [Request("https://a.example/")], 0)
    (source / "spider.state").write_bytes(b"a pickle")
    job = source if here else tmp_path / "new"
    out = verb("import", job, source, *options).out
    assert (job / "spider.state").exists() == trusted
    aside = source / "spider.state.not-imported"
    assert aside.exists() == (here and not trusted)
    assert ("is a pickle, and was" in out) != trusted
    assert (source / "spider.state").exists() == (trusted or not here)


# Requests that cannot be imported, and interruptions


def test_unreadable_requests_are_named_and_left_out(verb: Verb, tmp_path: Path) -> None:
    requests = [
        Request("https://a.example/1"),
        Request("https://a.example/2", SPIDER.gone),
        Request("https://a.example/3", meta={"x": {"y": object()}}),
        Request("https://a.example/4", meta={"x": Harmless(1)}),
    ]
    job = stopped(tmp_path / "job", requests, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(SiteSpider, "gone")
        answer = verb("import", job, *IMPORT)
    assert answer.code == 1
    assert answer.out.startswith("2 requests pending now\n4 URLs count as seen\n")
    assert "2 could not be read:\n" in answer.out
    assert f"{job}/requests.queue/0, request 3: Method 'gone' not found" in answer.out
    assert "https://a.example/3: meta['x']['y'] has a value of type" in answer.out
    found = sorted(urls(verb, job))
    assert found == ["https://a.example/1", "https://a.example/4"]
    # And from the beginning, when the spider was mended.
    verb("reset", job, "--yes")
    answer = verb("import", job, *IMPORT)
    assert answer.out.startswith("3 requests pending now\n")


def test_killed_in_the_middle_and_run_again(verb: Verb, tmp_path: Path) -> None:
    """Requests with dont_filter, of which no filter can tell that they were taken."""
    same = [
        Request("https://a.example/", dont_filter=True, meta={"n": n, "text": LONG})
        for n in range(1_000)
    ]
    job = stopped(tmp_path / "job", same, 0)
    killed_after(2, "import", job, *IMPORT, cwd=tmp_path)
    assert not (job / "bloomdupe").exists()
    assert verb("import", job, *IMPORT).code == 0
    assert len(urls(verb, job)) == len(same)
    assert not (job / "bloomdupe.importing").exists()
    (job / "bloomdupe.importing").mkdir()  # killed at the very end
    answer = verb("import", job, *IMPORT)
    assert not (job / "bloomdupe.importing").exists()
    assert answer.code == 1
    assert "is there already: import into a JOBDIR without a job" in answer.err
    assert len(urls(verb, job)) == len(same)


# What is no job of Scrapy's


def test_other_sources_are_refused(verb: Verb, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "list").write_text("https://a.example/\n")
    make_job(tmp_path / "ours", ["https://a.example/"])
    for source in ("empty", "gone", "list", "ours", "ours/bloomdupe"):
        answer = verb("import", "new", source, *IMPORT)
        assert (answer.code, answer.out) == (1, ""), answer
        assert f"{source} is no JOBDIR of Scrapy's own scheduler: " in answer.err
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "empty").iterdir()) == []
