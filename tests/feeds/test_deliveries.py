"""Feeds for storages: kept in the job whatever happens, and handed over once."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from storages import PASSWORD, ftp_server, ftp_uri, s3_server
from support.forks import forks
from support.page_server import page_server
from support.ports import kept_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

NAMES = "abcdefgh"
PAGES = {
    "/": "".join(f"<a href='/{name}'>x</a>" for name in NAMES),
    **{f"/{name}": "" for name in NAMES},
    "/new": "",
}

SPIDERS = """
import asyncio
import dataclasses
import os
import scrapy
from scrapy.exporters import BaseItemExporter, CsvItemExporter
from scrapy.extensions.feedexport import BlockingFeedStorage


@dataclasses.dataclass
class Article:
    path: str
    number: int


class Shop(scrapy.Spider):
    name = "shop"
    custom_settings = {"BLOOMDUPE_CHECKPOINT_INTERVAL": 0.02}
    start_urls = os.environ["SITE"].split()
    last = int(os.environ.get("DIE_AT", 1_000))
    begun = 0

    async def parse(self, response):
        if not self.begun:
            self.before = self.durable
        self.begun += 1
        dies = self.begun >= self.last
        path = response.url.rpartition("/")[2]
        for number in range(3):
            yield Article(path, number)
        while dies:  # when the pages before the last one are durable
            await asyncio.sleep(0.01)
            if self.durable == self.before + self.last - 1:
                os.kill(os.getpid(), 9)
        for request in response.follow_all(css="a"):
            yield request

    @property
    def durable(self):
        return self.crawler.stats.get_value("bloomdupe/total_pages", 0)


class Sums(BaseItemExporter):
    # Cannot be interrupted: says at the end how many there were.
    def __init__(self, file, **kwargs):
        super().__init__(dont_fail=True, **kwargs)
        self.file = file
        self.count = 0

    def export_item(self, item):
        assert isinstance(item, Article)
        self.count += 1
        line = f"{item.path} {item.number}\\n"
        self.file.write(line.encode())

    def finish_exporting(self):
        self.file.write(f"{self.count} items\\n".encode())


class Semicolons(CsvItemExporter):
    def __init__(self, file, **kwargs):
        super().__init__(file, delimiter=";", **kwargs)


class Reversed:
    # A plugin that needs everything at once.
    def __init__(self, file, feed_options):
        self.file = file
        self.data = b""

    def write(self, data):
        self.data += data
        return len(data)

    def close(self):
        self.file.write(self.data[::-1])


class Lined:
    # As in Scrapy's own tests: does something to each line, and closes the file.
    def __init__(self, file, feed_options):
        self.file = file

    def write(self, data):
        return self.file.write(data + b"--\\n")

    def close(self):
        self.file.close()


class Mailbox(BlockingFeedStorage):
    # Somebody's own storage: each delivery is a file.
    def __init__(self, uri, *, feed_options=None):
        self.folder = uri.partition("//")[2]

    def _store_in_thread(self, file):
        file.seek(0)
        if os.environ.get("MAILBOX") == "closed":
            raise OSError("the mailbox is closed")
        number = len(os.listdir(self.folder))
        with open(f"{self.folder}/{number}", "wb") as mail:
            mail.write(file.read())
        if os.environ.get("MAILBOX") == "deadly":
            os.kill(os.getpid(), 9)
        file.close()
"""

ITEMS = sorted((path[1:], n) for path in PAGES if path != "/new" for n in range(3))
NEW = sorted([*ITEMS, *(("new", number) for number in range(3))])
MAILBOX = 'FEED_STORAGES={"mail": "spiders.Mailbox"}'


class Project:
    """A spider in a folder, run by ``scrapy runspider``."""

    def __init__(self, folder: Path, base: str) -> None:
        self.folder = folder
        self.base = base
        self.log = self.output = ""

    def command(self, feeds: dict[str, Any], *settings: str) -> list[str]:
        """Return the command that runs the spider."""
        values = ['ADDONS={"bloomdupe.Addon": 500}', "JOBDIR=job"]
        values += ["TELNETCONSOLE_ENABLED=0", "REMOTE_CONTROL_ENABLED=0"]
        values += [f"FEEDS={json.dumps(feeds)}", *settings]
        arguments = [word for value in values for word in ("-s", value)]
        return ["scrapy", "runspider", "spiders.py", *arguments]

    def run(self, feeds: dict[str, Any], *settings: str, **environment: str) -> int:
        """Run the spider; return the exit status."""
        log, output = self.folder / "run.log", self.folder / "run.out"
        task = {
            "folder": str(self.folder),
            "environment": {"SITE": f"{self.base}/", **environment},
            "log": str(log),
            "output": str(output),
            "command": self.command(feeds, *settings),
        }
        status, late = forks().run(task, lambda _: None)
        self.log, self.output = log.read_text(), output.read_text()
        assert not late, self.log
        return status

    def die(self, feeds: dict[str, Any], *settings: str, times: int = 3) -> None:
        """Run the spider so often; it is killed when two more pages are durable."""
        for _ in range(times):
            status = self.run(feeds, *settings, DIE_AT="3")
            assert status == -signal.SIGKILL, self.log

    @property
    def spool(self) -> Path:
        """Where feeds wait."""
        return self.folder / "job" / "bloomdupe.feeds"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, _):
        yield Project(folder, base)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """What a server serves."""
    place = tmp_path / "served"
    place.mkdir()
    return place


def items(text: str) -> list[tuple[str, int]]:
    """Return the items of a JSON list."""
    return sorted((item["path"], item["number"]) for item in json.loads(text))


def test_a_feed_comes_to_an_ftp_server_once(project: Project, place: Path) -> None:
    with ftp_server(place, kept_port()) as ftp:
        feeds = {f"{ftp.uri}/items.json": {"format": "json"}}
        project.die(feeds)
        assert not list(place.iterdir())
        assert stat.S_IMODE(project.spool.stat().st_mode) == 0o700
        assert {stat.S_IMODE(f.stat().st_mode) for f in project.spool.iterdir()} == {
            0o600
        }
        assert project.run(feeds) == 0
        assert items((place / "items.json").read_text()) == ITEMS
        assert "Stored json feed (27 items) in: ftp://127.0.0.1" in project.log
        assert project.run(feeds) == 0
    assert ftp.complete == ["items.json"]
    for file in project.folder.rglob("*"):
        assert file.is_dir() or PASSWORD.encode() not in file.read_bytes()
    assert PASSWORD not in project.log.replace(json.dumps(feeds), "")


def test_a_delivery_that_fails_is_tried_again(project: Project, place: Path) -> None:
    port = kept_port()
    feeds = {f"{ftp_uri(port)}/items.json": {"format": "json"}}
    assert project.run(feeds) == 1
    assert "Error storing the feed (27 items) in: ftp://127.0.0.1" in project.log
    assert "when the same command is run again" in project.log
    assert project.run(feeds) == 1
    with ftp_server(place, port) as ftp:
        assert project.run(feeds) == 0
        assert items((place / "items.json").read_text()) == ITEMS
        assert project.run(feeds) == 0
    assert ftp.complete == ["items.json"]


def test_half_a_file_is_never_the_last_word(project: Project, place: Path) -> None:
    port = kept_port()
    with ftp_server(place, port, limit=200) as ftp:
        feeds = {f"{ftp.uri}/items.json": {"format": "json"}}
        process = subprocess.Popen(
            [sys.executable, "-m", *project.command(feeds)],
            cwd=project.folder,
            env={**os.environ, "SITE": f"{project.base}/"},
            stderr=subprocess.DEVNULL,
        )
        ftp.wait_for("begun")
        process.kill()
        process.wait()
    assert ftp.complete == []
    with ftp_server(place, port) as ftp:
        assert project.run(feeds) == 0
    assert ftp.complete == ["items.json"]
    assert items((place / "items.json").read_text()) == ITEMS


def test_batches_are_delivered_when_they_are_full(
    project: Project, place: Path
) -> None:
    with ftp_server(place, kept_port()) as ftp:
        feeds = {
            f"{ftp.uri}/%(batch_id)d.json": {"format": "json", "batch_item_count": 4}
        }
        project.die(feeds, times=2)
        status = project.run(feeds)
        assert status == 0, project.log
        # The last one is not full: it would be added to.
        assert len(list(project.spool.glob("*.?"))) == 1
    assert sorted(set(ftp.complete)) == [f"{number}.json" for number in range(1, 8)]
    found = [item for file in place.iterdir() for item in items(file.read_text())]
    assert sorted(found) == ITEMS


DIE_WHILE_IT_IS_READ = """
import os
from scrapy.extensions.feedexport import S3FeedStorage
upload = S3FeedStorage._store_in_thread


def die(self, file):
    read = file.read

    def half(*size):
        if read(10):
            os.kill(os.getpid(), 9)

    file.read = half
    upload(self, file)


if "DIE_IN_UPLOAD" in os.environ:
    S3FeedStorage._store_in_thread = die
"""


def test_a_feed_comes_to_s3_though_the_upload_is_killed(project: Project) -> None:
    with (project.folder / "spiders.py").open("a") as file:
        file.write(DIE_WHILE_IT_IS_READ)
    with s3_server() as (endpoint, client):
        settings = [f"AWS_ENDPOINT_URL={endpoint}", "AWS_REGION_NAME=us-east-1"]
        settings += ["AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret"]
        feeds = {"s3://bucket/%(name)s.json": {"format": "json"}}
        project.die(feeds, *settings, times=2)
        assert project.run(feeds, *settings, DIE_IN_UPLOAD="1") == -signal.SIGKILL
        assert "Contents" not in client.list_objects_v2(Bucket="bucket")
        assert project.run(feeds, *settings) == 0
        answer = client.get_object(Bucket="bucket", Key="shop.json")
        assert items(answer["Body"].read()) == ITEMS
        # New work of a finished job is added; the object is replaced by all of it.
        both = f"{project.base}/ {project.base}/new"
        assert project.run(feeds, *settings, SITE=both) == 0
        answer = client.get_object(Bucket="bucket", Key="shop.json")
        assert items(answer["Body"].read()) == NEW


def test_standard_output_gets_the_whole_feed_at_the_end(project: Project) -> None:
    feeds = {"stdout:": {"format": "json"}}
    project.die(feeds)
    assert project.run(feeds, "CLOSESPIDER_PAGECOUNT=1") == 0
    assert not project.output
    assert "it is stored in stdout: when the crawl has finished" in project.log
    assert project.run(feeds) == 0
    assert items(project.output) == ITEMS
    assert project.run(feeds) == 0
    assert not project.output
    both = f"{project.base}/ {project.base}/new"
    assert project.run(feeds, SITE=both) == 0
    assert items(project.output) == NEW[-3:]


def sums(text: str) -> list[tuple[str, int]]:
    *lines, count = text.splitlines()
    assert count == f"{len(lines)} items"
    pairs = [line.rsplit(" ", 1) for line in lines]
    return sorted((path, int(number)) for path, number in pairs)


SUMS = 'FEED_EXPORTERS={"sums": "spiders.Sums"}'
SEMICOLONS: tuple[dict[str, Any], str] = (
    {"items.csv": {"format": "csv"}},
    'FEED_EXPORTERS={"csv": "spiders.Semicolons"}',
)
FULL = """

class Full(Mailbox):
    def open(self, spider):
        file = super().open(spider)
        if os.environ.get("FULL") == "file":
            file.write = self.write
        return file

    def write(self, data):
        raise ValueError("the file is full")


class Exhausted(Sums):
    def export_item(self, item):
        if os.environ.get("FULL") == "memory":
            raise MemoryError("the memory is full")
        super().export_item(item)
"""


def test_an_exporter_that_cannot_be_interrupted_is_run_at_the_end(
    project: Project,
) -> None:
    file = project.folder / "items.sums"
    file.write_text("old\n")
    feeds = {"items.sums": {"format": "sums", "overwrite": True}}
    project.die(feeds, SUMS)
    assert file.read_text() == "old\n"
    assert project.run(feeds, SUMS) == 0
    assert sums(file.read_text()) == ITEMS
    assert not list(project.folder.glob(".*part"))
    before = file.stat()
    assert project.run(feeds, SUMS) == 0
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_a_subclass_of_scrapys_exporters_is_run_at_the_end(project: Project) -> None:
    project.die(*SEMICOLONS)
    assert not (project.folder / "items.csv").exists()
    assert project.run(*SEMICOLONS) == 0
    head, *rows = (project.folder / "items.csv").read_text().splitlines()
    assert head == "path;number"
    assert sums("\n".join([*rows, f"{len(rows)} items"]).replace(";", " ")) == ITEMS


def test_another_kind_of_exporter_is_refused(project: Project) -> None:
    feeds, exporters = SEMICOLONS
    for before, now in ([], [exporters]), ([exporters], []):
        job = f"JOBDIR=job{len(before)}"
        project.die(feeds, job, *before, times=1)
        files = [project.folder / "items.csv"]
        contents = [file.exists() and file.read_bytes() for file in files]
        assert project.run(feeds, job, *now) == 1
        assert "was begun with another exporter or storage" in project.log
        assert [file.exists() and file.read_bytes() for file in files] == contents


def test_an_item_for_which_the_exporter_fails_holds_nothing_back(
    project: Project, place: Path
) -> None:
    feeds = {f"mail://{place}": {"format": "sums"}}
    source = SPIDERS.replace("self.count += 1", "self.count += 1 // item.number")
    (project.folder / "spiders.py").write_text(source.replace("range(3)", "range(2)"))
    assert project.run(feeds, MAILBOX, SUMS) == 0
    (mail,) = place.iterdir()
    assert sums(mail.read_text()) == [item for item in ITEMS if item[1] == 1]
    assert project.log.count("The exporter failed for an item") == len(NAMES) + 1
    assert project.log.count("ZeroDivisionError") == len(NAMES) + 1
    assert f"Stored sums feed ({len(NAMES) + 1} items)" in project.log
    assert project.run(feeds, MAILBOX, SUMS) == 0
    assert len(list(place.iterdir())) == 1


@pytest.mark.parametrize("part", ["file", "memory"])
def test_an_error_of_the_file_or_the_memory_is_no_error_of_an_item(
    project: Project, place: Path, part: str
) -> None:
    (project.folder / "spiders.py").write_text(SPIDERS + FULL)
    feeds = {f"mail://{place}": {"format": "sums"}}
    full = MAILBOX.replace("Mailbox", "Full"), SUMS.replace("Sums", "Exhausted")
    assert project.run(feeds, *full, FULL=part) == 1
    assert f"the {part} is full" in project.log
    assert "Error storing the feed (27 items)" in project.log
    assert not list(place.iterdir())
    assert project.run(feeds, *full) == 0
    (mail,) = place.iterdir()
    assert sums(mail.read_text()) == ITEMS


def test_a_plugin_that_cannot_be_interrupted_is_run_at_the_end(
    project: Project,
) -> None:
    file = project.folder / "items.csv"
    file.write_text("old\n")
    feeds = {"items.csv": {"format": "json", "postprocessing": ["spiders.Reversed"]}}
    project.die(feeds)
    assert project.run(feeds) == 0
    old, data = file.read_text().split("\n", 1)
    assert old == "old"
    assert items(data[::-1]) == ITEMS


def test_a_plugin_sees_what_the_exporter_writes_and_may_close_the_file(
    project: Project,
) -> None:
    feeds = {"items.csv": {"format": "csv", "postprocessing": ["spiders.Lined"]}}
    project.die(feeds)
    assert project.run(feeds) == 0
    rows = (project.folder / "items.csv").read_text().splitlines()
    assert set(rows[1::2]) == {"--"}
    assert rows[0] == "path,number"
    assert len(set(rows[2::2])) == len(ITEMS)


DIE_AROUND = """
import os
from bloomdupe.feeds.target import Target
store = Target.store


def die(self, file):
    if os.environ.get("DIE") == "before":
        os.kill(os.getpid(), 9)
    store(self, file)
    if os.environ.get("DIE") == "after":
        os.kill(os.getpid(), 9)


Target.store = die
"""


@pytest.mark.parametrize("instant", ["before", "after"])
def test_a_local_file_gets_it_once_though_the_process_dies(
    project: Project, instant: str
) -> None:
    with (project.folder / "spiders.py").open("a") as file:
        file.write(DIE_AROUND)
    place = project.folder / "items.sums"
    place.write_text("old\n")
    feeds = {"items.sums": {"format": "sums"}}
    assert project.run(feeds, SUMS, DIE=instant) == -signal.SIGKILL
    for _ in range(2):
        assert project.run(feeds, SUMS) == 0
    assert sums(place.read_text().removeprefix("old\n")) == ITEMS


@pytest.mark.parametrize("kind", ["json", "sums"])
def test_somebodys_own_storage_gets_the_whole_file(
    project: Project, place: Path, kind: str
) -> None:
    feeds = {f"mail://{place}": {"format": kind}}
    project.die(feeds, MAILBOX, SUMS)
    assert project.run(feeds, MAILBOX, SUMS, MAILBOX="closed") == 1
    assert "the mailbox is closed" in project.log
    assert not list(place.iterdir())
    # It was stored, and nobody has taken note: the storage gets it twice.
    assert project.run(feeds, MAILBOX, SUMS, MAILBOX="deadly") == -signal.SIGKILL
    for _ in range(2):
        assert project.run(feeds, MAILBOX, SUMS) == 0
    read = sums if kind == "sums" else items
    assert [read(mail.read_text()) for mail in place.iterdir()] == [ITEMS, ITEMS]


def test_what_waits_is_said_if_the_feed_is_not_there_any_more(
    project: Project, place: Path
) -> None:
    feeds = {f"mail://{place}": {"format": "json"}}
    assert project.run(feeds, MAILBOX, MAILBOX="closed") == 1
    assert project.run({}, MAILBOX) == 0
    assert f"The feed mail://{place} (27 items) is not delivered" in project.log
    assert project.run(feeds, MAILBOX) == 0
    assert len(list(place.iterdir())) == 1


def test_an_item_that_cannot_be_kept_stops_the_crawl(project: Project) -> None:
    source = SPIDERS.replace("yield Article(path, number)", "yield {'x': object()}")
    (project.folder / "spiders.py").write_text(source)
    assert project.run({"items.sums": {"format": "sums"}}, SUMS) == 1
    assert "BLOOMDUPE_SERIALIZER" in project.log
    assert not (project.folder / "items.sums").exists()


def test_without_items_an_empty_feed_is_delivered_if_it_is_wanted(
    project: Project, place: Path
) -> None:
    (project.folder / "spiders.py").write_text(
        SPIDERS.replace("yield Article(path, number)", "pass")
    )
    feeds = {f"mail://{place}": {"format": "json"}}
    assert project.run(feeds, MAILBOX, "FEED_STORE_EMPTY=False") == 0
    assert not list(place.iterdir())
    assert project.run(feeds, MAILBOX, "JOBDIR=other") == 0
    assert [json.loads(mail.read_text()) for mail in place.iterdir()] == [[]]
