"""Which runs of Scrapy belong to the job in JOBDIR, and which are refused.

Real commands in a project with JOBDIR in its settings. The judges are the files of the
job, byte for byte, and the requests of a later crawl.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
import scrapy
from scrapy.crawler import Crawler
from support.crawl import Crawl, Run
from support.site import links

from bloomdupe.crawl.preflight import expanded
from bloomdupe.errors import SettingError
from bloomdupe.inside_scrapy import private_names
from bloomdupe.inside_scrapy.private_names import missing

pytestmark = pytest.mark.slow

NAMED_LATE = """
import scrapy, scrapy.crawler, scrapy.utils.project
settings = scrapy.utils.project.get_project_settings()
settings["JOBDIR"] = {jobdir!r}
process = scrapy.crawler.{process}(settings)
crawling = process.crawl(scrapy.Spider, name="named late", start_urls=["{url}"])
process.start()
"""

SETTINGS = {
    "BLOOMDUPE_EXPECTED_URLS": 10_000,
    "FEEDS": {"items.jsonl": {"format": "jsonlines", "overwrite": True}},
}
PAGES = {f"/{n}": links(f"/{(n + 1) % 9}") for n in range(9)}


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.make_project("spiders.preflight")
    return crawl


def last_line(run: Run) -> str:
    return run.log.strip().splitlines()[-1]


def run_script(crawl: Crawl, text: str, *words: str) -> Run:
    """Run a script in the project."""
    (crawl.folder / "script.py").write_text(text)
    return crawl.start_command("script.py", *words).wait()


def looks(base: str) -> dict[str, list[str]]:
    """Return commands that look at something."""
    return {
        "check": ["check"],
        "fetch": ["fetch", f"{base}/1"],
        "shell": ["shell", f"{base}/1", "-c", "response.status"],
        "shell, its settings set": [
            "shell", "--spider", "first", f"{base}/1", "-c", "response.status",
            "-s", "LOGSTATS_INTERVAL=1", "-s", "REMOTE_CONTROL_ENABLED=0",
            "-s", "DUPEFILTER_CLASS=bloomdupe.BloomDupeFilter",
        ],
        "shell of a project with revisits": [
            "shell", "--spider", "first", f"{base}/1", "-s",
            'BLOOMDUPE_REVISIT=[[".*", 3600]]', "-c",
            f"fetch(scrapy.Request('{base}/2'))",
        ],
        "parse": ["parse", "--spider", "first", f"{base}/1"],
        "list": ["list"],
        "settings": ["settings", "--get", "JOBDIR"],
        "bloomdupe": ["bloomdupe", "info"],
    }  # fmt: skip


def test_commands_that_look_at_something_leave_the_job_alone(crawl: Crawl) -> None:
    base = crawl.site.base
    for name, look in looks(base).items():
        if name != "bloomdupe":
            crawl.scrapy(*look)
    assert not crawl.contents()
    crawl.scrapy("crawl", "first", "-s", "CLOSESPIDER_PAGECOUNT=3")
    files = crawl.contents()
    assert files["items.jsonl"]
    for name, look in looks(base).items():
        run = crawl.scrapy(*look)
        # The shell of Scrapy 2.16 also begins to crawl, for as long as it is open.
        crawls = "--spider" in look and scrapy.version_info < (2, 17)
        assert crawls or len(run.requested) <= 2, name
        assert crawl.contents() == files, name
    crawl.scrapy("crawl", "first")
    items = crawl.contents()["items.jsonl"].splitlines()
    pages = [json.loads(item)["page"] for item in items]
    assert sorted(pages) == sorted(base + path for path in PAGES)


STOP = ("-s", "CLOSESPIDER_PAGECOUNT=3")
SCRAPYS = ("-s", "SCHEDULER=scrapy.core.scheduler.Scheduler")
OWN = ("-s", "SCHEDULER=spiders.preflight.OwnScheduler")
"""A project's own scheduler, derived from bloomdupe's."""


def feeds(*places: str) -> tuple[str, str]:
    """Return the option for feeds of JSON lines at these places."""
    given = {place: {"format": "jsonlines"} for place in places}
    return ("-s", f"FEEDS={json.dumps(given)}")


class Refusal(NamedTuple):
    """How a job comes to be, how it is crawled then, and why that is refused."""

    why: str
    begun: tuple[str, ...] | None = STOP
    """Options of the run before; None: there is none."""
    options: tuple[str, ...] = ()


REACTOR = "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor"
REFUSALS = {
    "a wrong value": Refusal("BLOOMDUPE_FPP = '7': ", None, ("-s", "BLOOMDUPE_FPP=7")),
    "another reactor": Refusal("TWISTED_REACTOR", None, ("-s", REACTOR)),
    "no reactor": Refusal(
        "TWISTED_REACTOR_ENABLED", None, ("-s", "TWISTED_REACTOR_ENABLED=False")
    ),
    "a job of Scrapy alone": Refusal(
        "`bloomdupe import job --spider first`", (*STOP, "-s", "ADDONS={}")
    ),
    "a job of Scrapy alone, and an own scheduler": Refusal(
        "`bloomdupe import job", (*STOP, "-s", "ADDONS={}"), options=OWN
    ),
    "a job of Scrapy with our filter": Refusal(
        "only Scrapy's own scheduler can see", (*STOP, *SCRAPYS)
    ),
    "a job of ours, and Scrapy's scheduler": Refusal(
        "only bloomdupe.FrontierScheduler can see", options=SCRAPYS
    ),
    "a job inside a store": Refusal(
        "is itself a store", options=("-s", "JOBDIR=job/bloomdupe")
    ),
    "two feeds with one file": Refusal(
        "have the same file", None, options=feeds("a", "./a")
    ),
    "a feed at a directory": Refusal("/job is a directory; ", options=feeds("job")),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_one_line_and_changes_nothing(crawl: Crawl, case: str) -> None:
    refusal = REFUSALS[case]
    if refusal.begun is not None:
        crawl.scrapy("crawl", "first", *refusal.begun)
    files = crawl.contents()
    run = crawl.scrapy("crawl", "first", *refusal.options, status=1)
    (line,) = (
        line
        for line in run.log.splitlines()
        if "] ERROR: " in line or "] CRITICAL: " in line
    )
    assert "] CRITICAL: The crawl does not begin: " in line
    assert refusal.why in line
    assert "Traceback" not in run.log
    assert crawl.contents() == files
    assert not run.requested


def test_a_scrapy_without_a_private_name_is_refused_in_one_line(
    crawl: Crawl,
) -> None:
    name = "scrapy.extensions.feedexport.FeedExporter._start_new_batch"
    place, _, attribute = name.rpartition(".")
    script = (
        "import pkgutil\n"
        "from scrapy import cmdline\n"
        f"delattr(pkgutil.resolve_name({place!r}), {attribute!r})\n"
        "cmdline.execute()\n"
    )
    run = run_script(crawl, script, "crawl", "first")
    assert run.status == 1
    assert "Traceback" not in run.log
    refusal = f"The crawl does not begin: Scrapy {scrapy.__version__} has no {name}, "
    assert refusal in last_line(run)
    assert f"install scrapy<{scrapy.__version__}, or a newer" in last_line(run)
    assert not crawl.contents()
    assert not crawl.site.requested


def test_a_missing_name_is_found_wherever_it_belongs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Although a tool has replaced the constructor that sets others."""
    slot = "scrapy.core.downloader.Slot."
    known = [slot + "transferring", "scrapy.http.cookies.CookieJar.jar"]
    known.append("scrapy.crawler.Crawler.addons")
    gone = [slot + "gone", "scrapy.utils.defer.gone", "scrapy.gone"]
    gone.append("scrapy.crawler.Crawler.gone")
    for _ in range(2):
        assert missing(known + gone) == gone
        monkeypatch.setattr(Crawler, "__init__", print)
        private_names._in_constructors.cache_clear()


def run_named_late(
    crawl: Crawl, jobdir: str, handle: str = "", process: str = "CrawlerProcess"
) -> Run:
    """Run a spider that gets its name when it is made, for the first page."""
    url = crawl.site.base + "/0"
    script = NAMED_LATE.format(jobdir=jobdir, process=process, url=url)
    return run_script(crawl, script + handle)


@pytest.mark.parametrize(
    ("process", "handle"),
    [
        ("CrawlerProcess", "crawling.addErrback(lambda error: print(error.value))"),
        ("AsyncCrawlerProcess", "print(crawling.exception())"),
    ],
)
def test_a_script_has_the_error(crawl: Crawl, process: str, handle: str) -> None:
    crawl.scrapy("crawl", "first")
    files = crawl.contents()
    run = run_named_late(crawl, "job", handle, process)
    assert "was made with spider = 'first'" in run.log
    assert "The crawl does not begin: " in run.log
    assert crawl.contents() == files


def test_a_spider_may_get_its_name_when_it_is_made(crawl: Crawl) -> None:
    run = run_named_late(crawl, "job")
    assert run.status == 0
    assert run.requested == ["/0"]
    assert "job/bloomdupe/data.mdb" in crawl.contents()
    assert run_named_late(crawl, "jobs/%(spider)s").status == 0
    # Scrapy's own extension has the same folder.
    for name in ("bloomdupe/data.mdb", "spider.state"):
        assert f"jobs/named late/{name}" in crawl.contents()
    with pytest.raises(SettingError, match="the spider's class has no name"):
        expanded("JOBDIR", "jobs/%(spider)s", None)


def test_the_name_of_a_spider_makes_a_name_of_a_folder() -> None:
    names = ["a", "a/b", "a%2Fb", "a.b", "..", ".", "", "ä", "a b", "\0", "a\nb", "%s"]
    folders = [str(expanded("JOBDIR", "c/%(spider)s/100%", name)) for name in names]
    assert folders[0] == "c/a/100%"
    assert len({*folders}) == len(names)
    for folder in folders[:6] + folders[7:]:
        _, middle, _ = folder.split("/")
        assert middle not in (".", "..", "")
        assert middle.isprintable()


def test_a_jobdir_without_a_name_in_it_stays_as_it_is(tmp_path: Path) -> None:
    for jobdir in ("50%", "a%%b", tmp_path, None):
        assert expanded("JOBDIR", jobdir, "x") == jobdir
    for jobdir in ("%(spider)", "%(spider)d", "%(time)s"):
        with pytest.raises(SettingError, match="only %\\(spider\\)s is replaced"):
            expanded("JOBDIR", jobdir, "x")
