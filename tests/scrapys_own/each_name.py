"""Takes each private name of Scrapy away in turn, and crawls.

    python tests/scrapys_own/each_name.py [NAME ...]

A crawl of a few pages, with two feeds, cookies, media files and followed links, is
stopped and run again, with a Scrapy that lacks one of the names that bloomdupe uses. It
is refused in one line, before anything is created or fetched, or it works. The verbs
work in any case. Prints a line for each name, and those that are at fault. A crawl that
has not ended after a minute is at fault, too. Exit status 1 if any is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from scrapy import __version__

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.site import Answer, Page, Site, links

from bloomdupe.inside_scrapy.private_names import NEEDED, OF_PIPELINES, WITH_FALLBACK

PAGES = 12
SECONDS = 60
"""After which a command is taken for one that hangs."""
TAKEN_AWAY = Path(__file__).parent.parent / "support" / "taken_away.py"

REFUSED = "The crawl does not begin: "

PROJECT = """
ADDONS = {"bloomdupe.Addon": 500}
JOBDIR = "job"
SPIDER_MODULES = ["pages"]
FEEDS = {
    "items.jsonl": {"format": "jsonlines"},
    "items.csv": {"format": "csv"},
    "items.json": {"format": "json"},
}
ITEM_PIPELINES = {"scrapy.pipelines.files.FilesPipeline": 1}
FILES_STORE = "files"
AUTOTHROTTLE_ENABLED = True
AUTOTHROTTLE_START_DELAY = 0.01
TELNETCONSOLE_ENABLED = False
BLOOMDUPE_EXPECTED_URLS = 1_000
"""

SPIDER = """
import logging
import scrapy

# It asks a server on the web for the list of all domains, and logs that in vain.
logging.getLogger("tldextract").setLevel("CRITICAL")

class Pages(scrapy.Spider):
    name = "pages"
    start_urls = ["SITE/0"]
    allowed_domains = ["127.0.0.1"]

    def parse(self, response):
        number = int(response.url.rpartition("/")[2])
        yield {"page": number, "file_urls": [f"SITE/file{number}"]}
        yield from response.follow_all(css="a")
"""


def pages() -> dict[str, Page]:
    """Return pages with links to all pages, and files."""
    cookie = {"Set-Cookie": "visited=1"}
    body = links(*(f"/{number}" for number in range(PAGES)))
    found: dict[str, Page] = {}
    for number in range(PAGES):
        found[f"/{number}"] = Answer(body, headers=cookie)
        found[f"/file{number}"] = "file"
    return found


class Ended(NamedTuple):
    """A command that has ended; ``status`` is None if it had to be ended."""

    status: int | None
    output: str

    def lines(self, words: str) -> list[str]:
        """Return the lines with these words."""
        return [line for line in self.output.splitlines() if words in line]


def run(folder: Path, taken: str, *command: str) -> Ended:
    """Run a command in a folder, with a Scrapy that lacks a name; "" is none."""
    try:
        done = subprocess.run(
            [sys.executable, str(TAKEN_AWAY), taken, *command],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(folder),
                "PYTHONDONTWRITEBYTECODE": "",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = error.output or b""
        return Ended(None, output.decode(errors="replace"))
    return Ended(done.returncode, done.stdout)


def try_without(taken: str) -> tuple[str, list[str]]:
    """Crawl without a name; return what happened, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="without-") as name, Site(pages()) as site:
        folder = Path(name)
        (folder / "project.py").write_text(PROJECT)
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
        (folder / "pages.py").write_text(SPIDER.replace("SITE", site.base))
        crawl = ("scrapy", "crawl", "pages")
        first = run(folder, taken, *crawl, "-s", "CLOSESPIDER_PAGECOUNT=4")
        refusals = first.lines(REFUSED)
        if refusals:
            told = refusals[0].partition(REFUSED)[2]
            return f"refused: {told}", refusal_faults(folder, site, first)
        second = run(folder, taken, *crawl)
        wrong = crawl_faults(first) + crawl_faults(second)
        wrong += item_faults(folder)
        for verb in ("info", "list", "verify"):
            asked = run(folder, taken, "bloomdupe", verb, "job")
            if asked.status != 0 or asked.lines("Traceback"):
                wrong.append(f"bloomdupe {verb}: {asked.output[-200:]}")
        return "works", wrong


def refusal_faults(folder: Path, site: Site, ended: Ended) -> list[str]:
    """Return what is wrong with a refusal."""
    wrong = []
    if ended.status != 1:
        wrong.append(f"exit status {ended.status}")
    levels = ended.lines("] CRITICAL: ") + ended.lines("] ERROR: ")
    if len(levels) != 1 or ended.lines("Traceback"):
        wrong.append("more than one line: " + "\n".join(levels)[:500])
    if "install scrapy<" not in levels[0]:
        wrong.append("no remedy")
    created = {file.name for file in folder.iterdir()} - {
        *("project.py", "pages.py", "scrapy.cfg", "__pycache__")
    }
    if created:
        wrong.append(f"created {sorted(created)}")
    if site.requested:
        wrong.append(f"{len(site.requested)} requests")
    told = run(folder, "", "bloomdupe", "list", "job")
    if "Traceback" in told.output:
        wrong.append("bloomdupe list: a traceback")
    return wrong


def crawl_faults(ended: Ended) -> list[str]:
    """Return what is wrong with a run."""
    wrong = []
    if ended.status != 0:
        wrong.append("hangs" if ended.status is None else f"status {ended.status}")
    if ended.lines("Traceback"):
        place = ended.output.index("Traceback")
        wrong.append("a traceback: " + ended.output[place:][-700:])
    return wrong


def item_faults(folder: Path) -> list[str]:
    """Return what is wrong with the items of both runs."""
    wrong = []
    feeds = [folder / f"items.{kind}" for kind in ("jsonl", "csv", "json")]
    if not all(feed.exists() for feed in feeds):
        return ["a feed is missing"]
    lines, table, whole = (feed.read_text() for feed in feeds)
    pages = sorted(json.loads(line)["page"] for line in lines.splitlines())
    if pages != list(range(PAGES)):
        wrong.append(f"items.jsonl has the pages {pages}")
    if len(table.splitlines()) != PAGES + 1:
        wrong.append(f"items.csv has {len(table.splitlines())} lines")
    if len(json.loads(whole or "[]")) != PAGES:
        wrong.append("items.json has other items")
    return wrong


def main() -> int:
    """Try each name; print a table, and return the exit status."""
    names = sys.argv[1:] or ["", *NEEDED, *OF_PIPELINES, *WITH_FALLBACK]
    faults = 0
    print(f"Scrapy {__version__}, {len(names)} crawls")
    for name in names:
        what, wrong = try_without(name)
        faults += bool(wrong)
        print(
            f"| {name or 'nothing'} | {what} | {'; '.join(wrong) or 'ok'} |", flush=True
        )
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
