"""Crawls of an idiom: a folder with a project, a site, and runs of the command."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from recorder import FILE
from support import taken_out
from support.crawl import Crawl, Run
from support.engines import DISK, Memory
from support.site import Site
from support.stops import NOWHERE, Stop
from table import Idiom

DELAY = 0.004
"""Seconds that an answer takes."""
FORCED = "forcing unclean shutdown"
"""In the log of a run in which Ctrl-C came twice."""
MEDIA = {"file_urls", "files"}
"""Fields that the feeds leave out."""

SETTINGS: dict[str, Any] = {
    "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.02,
    "BLOOMDUPE_EXPECTED_URLS": 10_000,
    "CONCURRENT_ITEMS": 8,
    "CONCURRENT_REQUESTS": 4,
    "FEEDS": {
        "items.jsonl": {"format": "jsonlines"},
        "items.csv": {"format": "csv"},
    },
    "FEED_EXPORT_FIELDS": ["page", "part"],
    "ITEM_PIPELINES": {},
    "LOG_LEVEL": "INFO",
    "RETRY_ENABLED": True,
    "RETRY_TIMES": 5,
}
"""Of every project, besides those of every crawl."""


class Last(NamedTuple):
    """The last checkpoint of a job in a run."""

    begun: float
    under_way: int
    """Requests at that moment."""
    in_callbacks: int
    """Those of them with a callback, or items, in flight."""
    over: float = math.inf
    """When the job was closed, and the next one began, if there was one."""


def finished(run: Run) -> bool:
    reasons = re.findall(r"Spider closed \((.*?)\)", run.log)
    well = set(reasons) <= {"finished"} and FORCED not in run.log
    return run.status == 0 and well


def last_checkpoints(run: Run) -> list[Last]:
    """Return, of each job of a run, the last checkpoint that has become durable."""
    last: dict[str, Last] = {}
    begun: dict[str, Last] = {}
    closed: set[str] = set()
    under_way = in_callbacks = 0
    for kind, *words in run.events:
        if kind == "underway":
            under_way, in_callbacks = map(int, words)
        elif kind == "commit":
            job, time = words[0], float(words[1])
            begun[job] = Last(time, under_way, in_callbacks)
            if job not in last:
                # The first one is made before there is any request.
                last[job] = Last(time, 0, 0)
                for other in closed:
                    last[other] = last[other]._replace(over=time)
                closed.clear()
        elif kind == "committed":
            last[words[0]] = begun[words[0]]
        elif kind == "closed" and words[0] in last:
            closed.add(words[0])
    return list(last.values()) or [Last(0.0, 0, 0)]


Outputs: TypeAlias = dict[str, Counter[str]]
"""The output of crawls, as text, by the place that it is in."""


class IdiomCrawl(Crawl):
    """Runs of an idiom's command, as of a project, and their results.

    On Redis, each run is a worker that gets all partitions. ``without`` names a
    protection of bloomdupe that is taken out (see ``taken_out.py``). Its folder is made
    in ``place``, and is removed afterwards without ``keep``.
    """

    def __init__(
        self,
        idiom: Idiom,
        *,
        engine: Memory = DISK,
        without: str | None = None,
        place: Path | None = None,
        **settings: Any,
    ) -> None:
        self.idiom = idiom
        self.runs: list[Run] = []
        folder = Path(tempfile.mkdtemp(prefix="idiom-", dir=place))
        site = Site(idiom.pages, delay=DELAY).__enter__()
        own = {**SETTINGS, **idiom.settings, **settings}
        super().__init__(folder, site, engine, **own)
        self.keep = False
        self._records = engine is DISK
        if self._records:
            pipelines = {**own["ITEM_PIPELINES"], "recorder.Recorder": 1000}
            self.settings["ITEM_PIPELINES"] = pipelines
        self._module = idiom.spider.__module__
        self._before = None if without is None else getattr(taken_out, without)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.site.__exit__()
        if "KEEP_IDIOMS" in os.environ:
            print("kept:", self.folder)
        elif not self.keep:
            shutil.rmtree(self.folder.parent, ignore_errors=True)

    def run_command(self, stop: Stop = NOWHERE) -> Run:
        """Run the command once, until it ends or is stopped."""
        self.engine.pass_on("", last=True)
        self.make_project()
        project = {"SCRAPY_SETTINGS_MODULE": "crawl_settings"}
        task = {"before": self._before, "environment": project}
        self.site.kill_at(0)  # it has not come to the last stop, perhaps
        process = self.start_command(*self.idiom.command, stop=stop, **task)
        self.runs.append(process.wait())
        return self.runs[-1]

    # Results

    def collected(self) -> list[str]:
        """Let ``bloomdupe collect`` write the feeds of Redis; say what is wrong."""
        if not self.engine.collects:
            return []
        words = self.idiom.arguments
        named = ["--feed" if word in ("-o", "-O") else word for word in words]
        try:
            self.collect(*(named if "--feed" in named else []))
        except AssertionError as error:
            return [f"collect failed: {error}"]
        return [] if self.engine.finished else ["missing: something is still pending"]

    @property
    def visits(self) -> Counter[str]:
        """The requests that the site has seen, in all runs."""
        return Counter(visit.what for visit in self.site.log)

    def outputs(self) -> Outputs:
        """Read all feeds, wherever they are, and what the pipeline has, a set."""
        outputs: Outputs = {"JSON lines": Counter(), "CSV": Counter()}
        for file in sorted(self.folder.rglob("*.jsonl*")):
            with _opened(file) as text:
                outputs["JSON lines"].update(map(self._line, text.read().splitlines()))
        for file in sorted(self.folder.rglob("*.csv*")):
            with _opened(file) as lines:
                outputs["CSV"].update(map(self._text, csv.DictReader(lines)))
        if not self._records:
            return outputs
        lines = (self.folder / FILE).read_text("utf-8").splitlines()
        # The last line before a kill may be torn; it comes again.
        whole = {self._line(line) for line in lines if line.endswith("}")}
        outputs["pipeline"] = Counter(whole)
        return outputs

    def _line(self, line: str) -> str:
        try:
            return self._text(json.loads(line))
        except json.JSONDecodeError:
            return f"not JSON: {line}"

    def _text(self, item: dict[str, Any]) -> str:
        fields = {
            name: str(value).replace(self.site.base, "")
            for name, value in sorted(item.items())
            if value not in ("", None) and name not in MEDIA
        }
        return json.dumps(fields)


def _opened(file: Path) -> Any:
    read = gzip.open if file.suffix == ".gz" else open
    return read(file, "rt", encoding="utf-8", newline="")
