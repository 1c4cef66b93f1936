"""The feeds of a job belong to it: none is forgotten, none is emptied on the way."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from support.page_server import page_server
from test_deliveries import ITEMS, NEW, PAGES, SPIDERS, Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JSON = {"format": "json", "overwrite": True}
LINES = {"format": "jsonlines", "overwrite": True}
CSV = {"format": "csv", "overwrite": True}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, _):
        yield Project(folder, base)


def lines(*places: Path) -> list[tuple[str, int]]:
    texts = "".join(place.read_text() for place in places)
    found = [json.loads(line) for line in texts.splitlines()]
    return sorted((item["path"], item["number"]) for item in found)


def listed(place: Path) -> list[tuple[str, int]]:
    found = json.loads(place.read_text())
    return sorted((item["path"], item["number"]) for item in found)


def test_a_run_without_a_feed_of_the_job_is_refused(project: Project) -> None:
    a = project.folder / "a.jsonl"
    project.die({"a.jsonl": LINES}, times=1)
    before = a.read_bytes()
    for feeds in ({}, {"b.jsonl": LINES}):
        assert project.run(feeds) == 1
        assert "has begun with a feed a.jsonl" in project.log
        assert "-o a.jsonl" in project.log
        assert "BLOOMDUPE_FEED_CHANGED" in project.log
        assert "GET" not in project.log
        assert a.read_bytes() == before
        assert not (project.folder / "b.jsonl").exists()
    assert project.run({"a.jsonl": LINES}) == 0
    assert lines(a) == ITEMS


def test_a_job_can_go_on_without_a_feed_and_with_it_again(project: Project) -> None:
    accept = "BLOOMDUPE_FEED_CHANGED=accept"
    a, b = project.folder / "a.jsonl", project.folder / "b.jsonl"
    project.die({"a.jsonl": LINES}, times=1)
    first = a.read_bytes()
    project.die({"b.jsonl": LINES}, accept, times=1)
    second = b.read_bytes()
    project.die({"a.jsonl": LINES}, accept, times=1)
    assert project.run({"a.jsonl": LINES, "b.jsonl": LINES}, accept) == 0
    assert a.read_bytes().startswith(first)
    assert b.read_bytes().startswith(second)
    for place in (a, b):
        assert len(lines(place)) == len(set(lines(place)))
    assert {*lines(a), *lines(b)} == set(ITEMS)


def test_one_file_under_another_name_is_the_same_feed(project: Project) -> None:
    project.die({"a.jsonl": LINES}, times=1)
    assert project.run({str(project.folder / "a.jsonl"): LINES}) == 0
    assert lines(project.folder / "a.jsonl") == ITEMS


@pytest.mark.parametrize(
    ("kind", "changed", "said"),
    [
        ("csv", {"encoding": "utf-16"}, "encoding = 'utf-8', now it has"),
        ("csv", {"item_export_kwargs": {"delimiter": ";"}}, "{'delimiter': ';'}"),
        ("xml", {"item_export_kwargs": {"root_element": "x"}}, "item_export_kwargs"),
        ("json", {"indent": 2}, "indent = 0, now it has indent = 2"),
    ],
    ids=["encoding", "delimiter", "root", "indent"],
)
def test_what_shapes_a_file_must_stay_as_it_was(
    project: Project, kind: str, changed: dict[str, Any], said: str
) -> None:
    place = project.folder / "a"
    feed = {"format": kind}
    project.die({"a": feed}, times=1)
    before = place.read_bytes()
    assert project.run({"a": {**feed, **changed}}) == 1
    assert "a was begun with" in project.log
    assert said in project.log
    assert "GET" not in project.log
    assert place.read_bytes() == before
    assert project.run({"a": feed}) == 0
    assert place.read_bytes().startswith(before.rstrip(b"\n]</items>"))


def test_the_encoding_is_the_one_that_counts_in_the_end(project: Project) -> None:
    feeds = {"a.csv": CSV}
    project.die(feeds, times=1)
    assert project.run(feeds, "FEED_EXPORT_ENCODING=latin-1") == 1
    assert "encoding = 'utf-8', now it has encoding = 'iso8859-1'" in project.log
    assert project.run(feeds, "FEED_EXPORT_ENCODING=UTF8") == 0
    assert len((project.folder / "a.csv").read_text().splitlines()) == len(ITEMS) + 1


def state(project: Project) -> dict[str, tuple[bytes, int]]:
    names = ("a.jsonl", "a.json", "a.csv")
    files = [project.folder / name for name in names]
    return {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in files}


def test_a_finished_job_changes_none_of_its_files(project: Project) -> None:
    feeds = {"a.jsonl": LINES, "a.json": JSON, "a.csv": CSV}
    assert project.run(feeds) == 0
    before = state(project)
    assert project.run(feeds) == 0
    assert "Stored" not in project.log
    assert state(project) == before
    for name in feeds:
        (project.folder / name).unlink()
    assert project.run(feeds) == 0
    assert not any((project.folder / name).exists() for name in feeds)


def test_new_work_of_a_finished_job_is_added(project: Project) -> None:
    feeds = {"a.jsonl": LINES, "a.json": JSON, "a.csv": CSV}
    assert project.run(feeds) == 0
    with (project.folder / "a.csv").open("a") as file:
        file.write("mine,1\n")
    both = f"{project.base}/ {project.base}/new"
    assert project.run(feeds, SITE=both) == 0
    assert lines(project.folder / "a.jsonl") == NEW
    assert listed(project.folder / "a.json") == NEW
    header, *rows = (project.folder / "a.csv").read_text().splitlines()
    assert header == "path,number"
    assert sorted(rows) == sorted(
        ["mine,1", *(f"{path},{number}" for path, number in NEW)]
    )


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_new_round_begins_anew_or_is_added(project: Project, overwrite: bool) -> None:
    feeds: dict[str, Any] = {
        name: {"format": kind, "overwrite": overwrite}
        for name, kind in (("a.jsonl", "jsonlines"), ("a.json", "json"))
    }
    assert project.run(feeds) == 0
    again = "BLOOMDUPE_START_REQUESTS=again"
    assert project.run(feeds, again) == 0
    expected = sorted([*([] if overwrite else ITEMS), *ITEMS[:3]])
    assert lines(project.folder / "a.jsonl") == expected
    assert listed(project.folder / "a.json") == expected


def with_category(project: Project) -> None:
    """Let the feed's name depend on a parameter; ``/new`` waits for the first items."""
    source = SPIDERS.replace(
        "    async def parse(self, response):\n",
        """
    category = os.environ["CATEGORY"]

    async def parse(self, response):
        if "DIE" in os.environ and response.url.endswith("/new"):
            while not os.path.exists(self.category + ".jsonl"):
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), 9)
        async for found in self.found(response):
            yield found

    async def found(self, response):
""",
    )
    (project.folder / "spiders.py").write_text(source)


def test_another_parameter_of_the_spider_is_another_feed(project: Project) -> None:
    with_category(project)
    feeds = {"%(category)s.jsonl": LINES}
    books, music = (project.folder / f"{name}.jsonl" for name in ("books", "music"))
    home = f"{project.base}/"
    assert project.run(feeds, CATEGORY="books") == 0
    content = books.read_bytes()
    # The job has finished: new work is of the other category, and its file is ours.
    new = {"CATEGORY": "music", "SITE": f"{home} {home}new {home}a"}
    assert project.run(feeds, **new, DIE="yes") == -signal.SIGKILL
    assert lines(music) == [("a", number) for number in range(3)]
    assert books.read_bytes() == content
    books.write_bytes(content + b'{"path": "mine", "number": 0}\n')
    assert project.run(feeds, **new) == 0
    assert lines(music) == [(path, n) for path in ("a", "new") for n in range(3)]
    # What stands in the first file is never erased by the job, with -O neither.
    assert project.run(feeds, CATEGORY="books", SITE=f"{new['SITE']} {home}b") == 0
    added = [("b", number) for number in range(3)]
    assert lines(books) == sorted([*ITEMS, ("mine", 0), *added])
    assert len(lines(music)) == 6


def test_a_feed_that_has_begun_is_not_gone_on_with_for_another_parameter(
    project: Project,
) -> None:
    with_category(project)
    feeds = {"%(category)s.jsonl": LINES}
    books, music = (project.folder / f"{name}.jsonl" for name in ("books", "music"))
    assert project.run(feeds, CATEGORY="books", DIE_AT="3") == -signal.SIGKILL
    before = books.read_bytes()
    assert project.run(feeds, CATEGORY="music") == 1
    assert "has begun with a feed books.jsonl" in project.log
    assert "the same arguments of the spider, -o books.jsonl" in project.log
    assert "BLOOMDUPE_FEED_CHANGED" in project.log
    assert "GET" not in project.log
    assert books.read_bytes() == before
    assert not music.exists()
    accept = "BLOOMDUPE_FEED_CHANGED=accept"
    assert project.run(feeds, accept, CATEGORY="music") == 0
    assert books.read_bytes().startswith(before)
    assert lines(books, music) == ITEMS


def test_a_feed_goes_on_where_it_has_begun_whatever_the_time(project: Project) -> None:
    with_category(project)
    feeds = {"%(category)s %(time)s %(batch_time)s.jsonl": LINES}
    assert project.run(feeds, CATEGORY="books", DIE_AT="3") == -signal.SIGKILL
    assert project.run(feeds, CATEGORY="books") == 0
    (place,) = project.folder.glob("books*.jsonl")
    assert lines(place) == ITEMS


def test_columns_of_another_crawl_get_another_header(project: Project) -> None:
    place = project.folder / "a.csv"
    place.write_text("name,price\na,5")
    assert project.run({"a.csv": {"format": "csv"}}) == 0
    first, second, header, *rows = place.read_text().splitlines()
    assert (first, second, header) == ("name,price", "a,5", "path,number")
    assert len(rows) == len(ITEMS)


def test_what_scrapy_lacks_is_named(project: Project) -> None:
    with (project.folder / "spiders.py").open("a") as file:
        file.write(
            "\nfrom scrapy.exporters import CsvItemExporter as C\n"
            "C._write_header = C._write_headers_and_set_fields_to_export\n"
            "del C._write_headers_and_set_fields_to_export\n"
        )
    project.run({"a.csv": CSV})
    assert "GET" not in project.log
    assert "CsvItemExporter._write_headers_and_set_fields_to_export" in project.log
    assert not (project.folder / "a.csv").exists()


def test_an_item_that_one_exporter_cannot_take_is_no_loss_to_the_others(
    project: Project,
) -> None:
    source = SPIDERS.replace(
        "yield Article(path, number)",
        "yield {'path': path, 'number': number, 'x': {1}}",
    )
    (project.folder / "spiders.py").write_text(source)
    feeds = {
        "a.marshal": {"format": "marshal"},
        "bad.json": {"format": "json", "item_export_kwargs": {"default": "nothing"}},
        "a.jsonl": LINES,
    }
    assert project.run(feeds) == 0
    assert "not callable" in project.log
    assert lines(project.folder / "a.jsonl") == ITEMS
