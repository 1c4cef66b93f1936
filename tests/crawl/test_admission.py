"""Which runs of Scrapy belong to the job in JOBDIR, and which are refused.

Real commands in a project with JOBDIR in its settings. The judges are the files of the
job, byte for byte, and what a crawl does after them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import scrapy.crawler
from support.page_server import page_server

from bloomdupe.crawl.admission import expand_jobdir
from bloomdupe.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SETTINGS = """
ADDONS = {{"bloomdupe.Addon": 500}}
JOBDIR = {jobdir!r}
FEEDS = {{"items.jsonl": {{"format": "jsonlines", "overwrite": True}}}}
BLOOMDUPE_EXPECTED_URLS = 10_000
SPIDER_MODULES = ["spiders"]
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"
"""

SPIDERS = """
import scrapy


class First(scrapy.Spider):
    name = "first"
    start_urls = ["{base}/0"]
    allowed_domains = {domains!r}

    def parse(self, response):
        \"""Follow the links.

        @url {base}/1
        @returns items 1 1
        \"""
        yield {{"page": response.url}}
        yield from response.follow_all(css="a")


class Second(First):
    name = "second"
"""

SCRIPT = """
import scrapy.crawler, scrapy.utils.project
from spiders import Second
process = scrapy.crawler.{process}(scrapy.utils.project.get_project_settings())
crawling = process.crawl(Second)
process.start()
"""

PAGES = {f"/{n}": f"<a href='/{(n + 1) % 9}'>x</a>" for n in range(9)}

REACTORS = {
    "asyncio": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "other": "twisted.internet.selectreactor.SelectReactor",
}


@dataclass
class Project:
    """A project with two spiders and one JOBDIR."""

    folder: Path
    base: str
    asked: list[str]

    def settings(self, jobdir: str, domains: list[str]) -> None:
        text = SETTINGS.format(jobdir=jobdir)
        (self.folder / "project.py").write_text(text)
        (self.folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
        text = SPIDERS.format(base=self.base, domains=domains)
        (self.folder / "spiders.py").write_text(text)

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *args]
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def scrapy(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "scrapy", *args)

    def files(self) -> dict[str, bytes]:
        """Return what the runs have left, but for locks and the project itself."""
        return {
            str(file.relative_to(self.folder)): file.read_bytes()
            for file in self.folder.rglob("*")
            if file.is_file()
            and file.suffix not in (".py", ".cfg", ".pyc")
            and file.name not in ("lock.mdb", "owner.lock", "clean.json")
        }


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with page_server(PAGES) as (base, asked):
        project = Project(tmp_path, base, asked)
        project.settings("job", [])
        yield project


def last_line(run: subprocess.CompletedProcess[str]) -> str:
    return run.stderr.strip().splitlines()[-1]


def looks(base: str) -> dict[str, list[str]]:
    """Return commands that look at something."""
    return {
        "check": ["check"],
        "fetch": ["fetch", f"{base}/1"],
        "fetch by the spider": ["fetch", "--spider", "first", f"{base}/1"],
        "bench": ["bench", "-s", "CLOSESPIDER_TIMEOUT=1"],
        "shell": ["shell", f"{base}/1", "-c", "response.status"],
        "shell of the spider": [
            "shell", "--spider", "first", f"{base}/1", "-c", "response.status",
        ],
        "shell, its settings set": [
            "shell", "--spider", "first", f"{base}/1", "-c", "response.status",
            "-s", "LOGSTATS_INTERVAL=1", "-s", "REMOTE_CONTROL_ENABLED=0",
            "-s", "DUPEFILTER_CLASS=bloomdupe.BloomDupeFilter",
        ],
        "parse": ["parse", "--spider", "first", f"{base}/1"],
        "list": ["list"],
        "settings": ["settings", "--get", "JOBDIR"],
        "genspider": ["genspider", "third", "example.com"],
        "bloomdupe": ["bloomdupe", "info"],
    }  # fmt: skip


def test_commands_that_look_at_something_leave_the_job_alone(project: Project) -> None:
    (project.folder / "spiders").mkdir()  # for genspider
    before = {
        name: project.scrapy(*look)
        for name, look in looks(project.base).items()
        if name != "bloomdupe"
    }
    assert not project.files()
    crawl = project.scrapy("crawl", "first", "-s", "CLOSESPIDER_PAGECOUNT=3")
    assert crawl.returncode == 0, crawl.stderr
    files = project.files()
    assert files["items.jsonl"]
    after = {}
    for name, look in looks(project.base).items():
        project.asked.clear()
        after[name] = project.scrapy(*look)
        assert len(project.asked) <= 2, name
        assert project.files() == files, name
    for runs in (before, after):
        for name, run in runs.items():
            assert run.returncode == 0, (name, run.stderr)
    crawl = project.scrapy("crawl", "first")
    assert crawl.returncode == 0, crawl.stderr
    items = project.files()["items.jsonl"].splitlines()
    pages = [json.loads(item)["page"] for item in items]
    assert sorted(pages) == sorted(project.base + path for path in PAGES)


def test_a_command_finds_the_spider_of_a_url_and_leaves_its_job_alone(
    project: Project,
) -> None:
    project.settings("job", [project.base.removeprefix("http://")])
    text = (project.folder / "spiders.py").read_text()
    (project.folder / "spiders.py").write_text(text.partition("class Second")[0])
    assert project.scrapy("crawl", "first").returncode == 0
    files = project.files()
    for command in ("fetch", "parse"):
        run = project.scrapy(command, f"{project.base}/1")
        assert run.returncode == 0, run.stderr
        assert f"scrapy {command} leaves the job in JOBDIR alone" in run.stderr
    assert project.files() == files


def test_what_parse_is_to_write_it_writes(project: Project) -> None:
    arguments = ["--spider", "first", f"{project.base}/1", "-O", "parsed.jsonl"]
    run = project.scrapy("parse", *arguments)
    assert run.returncode == 0, run.stderr
    assert list(project.files()) == ["parsed.jsonl"]


@pytest.mark.parametrize("reactor", REACTORS.values(), ids=REACTORS)
def test_the_job_of_another_spider_is_refused_in_one_line(
    project: Project, reactor: str
) -> None:
    assert project.scrapy("crawl", "first").returncode == 0
    files = project.files()
    run = project.scrapy("crawl", "second", "-s", f"TWISTED_REACTOR={reactor}")
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert "The crawl does not begin: JOBDIR: " in last_line(run)
    assert '"crawls/%(spider)s"' in last_line(run)
    assert project.files() == files


@pytest.mark.parametrize(
    "setting",
    ["JOBDIR=%(name)s", "JOBDIR=project.py", "BLOOMDUPE_FPP=7"],
)
def test_a_setting_that_cannot_be_is_refused_in_one_line(
    project: Project, setting: str
) -> None:
    run = project.scrapy("crawl", "first", "-s", setting)
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert setting.partition("=")[0] in last_line(run)
    assert not project.files()


PROCESSES = [
    name
    for name in ("CrawlerProcess", "AsyncCrawlerProcess")
    if hasattr(scrapy.crawler, name)  # the latter from Scrapy 2.14 on
]


@pytest.mark.parametrize("process", PROCESSES)
def test_a_script_has_the_error(project: Project, process: str) -> None:
    assert project.scrapy("crawl", "first").returncode == 0
    files = project.files()
    script = project.folder / "script.py"
    handle = "crawling.addErrback(lambda failure: print(failure.value))\n"
    if process == "AsyncCrawlerProcess":
        handle = "print(crawling.exception())\n"
    script.write_text(SCRIPT.format(process=process) + handle)
    run = project.run("script.py")
    assert "was made with spider = 'first'" in run.stdout
    assert project.files() == files


def test_a_script_crawls_in_the_job(project: Project) -> None:
    (project.folder / "script.py").write_text(SCRIPT.format(process="CrawlerProcess"))
    assert project.run("script.py").returncode == 0
    assert "job/bloomdupe/data.mdb" in project.files()
    assert project.scrapy("crawl", "second").returncode == 0


NAMELESS = """
import scrapy, scrapy.crawler, scrapy.utils.project
settings = scrapy.utils.project.get_project_settings()
settings["JOBDIR"] = {jobdir!r}
process = scrapy.crawler.CrawlerProcess(settings)
crawling = process.crawl(scrapy.Spider, name="named late", start_urls=["{url}"])
crawling.addErrback(lambda failure: print(failure.value))
process.start()
"""


def test_a_spider_may_get_its_name_when_it_is_made(project: Project) -> None:
    url = project.base + "/0"
    script = project.folder / "script.py"
    script.write_text(NAMELESS.format(jobdir="job", url=url))
    assert project.run("script.py").returncode == 0
    assert project.asked == ["/0"]
    assert "job/bloomdupe/data.mdb" in project.files()
    script.write_text(NAMELESS.format(jobdir="jobs/%(spider)s", url=url))
    assert project.run("script.py").returncode == 0
    assert "jobs/named late/bloomdupe/data.mdb" in project.files()
    with pytest.raises(SettingError, match="the spider's class has no name"):
        expand_jobdir("jobs/%(spider)s", None)


@pytest.mark.parametrize("orders", [(1, 2), (2, 1)])
def test_the_order_of_add_ons_does_not_matter(
    project: Project, orders: tuple[int, int]
) -> None:
    """That of scrapy-poet sets REQUEST_FINGERPRINTER_CLASS."""
    ours, poets = orders
    addons = f'ADDONS = {{"bloomdupe.Addon": {ours}, "scrapy_poet.Addon": {poets}}}'
    with (project.folder / "project.py").open("a") as file:
        file.write(addons)
    first = project.scrapy("crawl", "first", "-s", "CLOSESPIDER_PAGECOUNT=3")
    assert first.returncode == 0, first.stderr
    again = project.scrapy("crawl", "first")
    assert again.returncode == 0, again.stderr
    assert "Resuming crawl" in again.stderr
    assert sorted(project.asked) == sorted(PAGES)
    files = project.files()
    other = "REQUEST_FINGERPRINTER_CLASS=scrapy.utils.request.RequestFingerprinter"
    refused = project.scrapy("crawl", "first", "-s", other)
    assert refused.returncode == 1
    assert "set REQUEST_FINGERPRINTER_CLASS back" in last_line(refused)
    assert project.files() == files


def test_each_spider_has_a_job_of_its_own(project: Project) -> None:
    project.settings("crawls/%(spider)s", [])
    for spider in ("first", "second", "first"):
        crawl = project.scrapy("crawl", spider)
        assert crawl.returncode == 0, crawl.stderr
    files = project.files()
    for spider in ("first", "second"):
        assert f"crawls/{spider}/bloomdupe/data.mdb" in files
        # Scrapy's own extension has the same folder.
        assert f"crawls/{spider}/spider.state" in files
    assert {name.split("/")[1] for name in files if "/" in name} == {"first", "second"}
    run = project.scrapy("bloomdupe", "info", "crawls/first")
    assert "first" in run.stdout, run.stderr
    run = project.scrapy("bloomdupe", "info")
    assert run.returncode == 2
    assert "the following arguments are required: store" in run.stderr


def test_the_name_of_a_spider_makes_a_name_of_a_folder() -> None:
    names = ["a", "a/b", "a%2Fb", "a.b", "..", ".", "", "ä", "a b", "\0", "a\nb", "%s"]
    folders = [str(expand_jobdir("c/%(spider)s/100%%", name)) for name in names]
    assert folders[0] == "c/a/100%"
    assert len({*folders}) == len(names)
    for folder in folders[:6] + folders[7:]:
        _, middle, _ = folder.split("/")
        assert middle not in (".", "..", "")
        assert middle.isprintable()


def test_a_jobdir_without_a_name_in_it_stays_as_it_is(tmp_path: Path) -> None:
    for jobdir in ("50%", "a%%b", tmp_path, None):
        assert expand_jobdir(jobdir, "x") == jobdir
    for jobdir in ("%(spider)", "%(spider)s%", "%(spider)d", "%(time)s"):
        with pytest.raises(SettingError, match="only %\\(spider\\)s is replaced"):
            expand_jobdir(jobdir, "x")
