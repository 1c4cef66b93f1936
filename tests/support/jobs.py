"""Jobs for the tests of the command line, made without a crawl."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import uuid4

import pytest
from scrapy import Request, Spider
from scrapy.utils.reactor import install_reactor, is_reactor_installed
from scrapy.utils.request import fingerprint
from scrapy.utils.test import get_crawler

from bloomdupe import BloomFilter
from bloomdupe.cli import main as cli
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.jobs.held import HeldJob
from bloomdupe.requests.serializer import Serializer
from support.crawl import BLOOMDUPE
from support.forks import Child
from support.stops import Stop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.crawler import Crawler

IDENTITY = {
    "spider": "site",
    "fingerprinter": "scrapy.utils.request.RequestFingerprinter",
    "exact": False,
}


class Answer(NamedTuple):
    """The answer of a verb."""

    code: int
    out: str
    err: str


Verb: TypeAlias = Callable[..., Answer]


def idle_crawler(**settings: object) -> Crawler:
    """Return a crawler that never crawls, with its settings applied."""
    if not is_reactor_installed():  # or it makes an event loop that nothing closes
        install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    return get_crawler(Spider, settings)


class SiteSpider(Spider):
    """A spider with a second callback."""

    name = "site"

    def parse_item(self, response: object) -> None:
        """Do nothing."""

    def gone(self, response: object) -> None:
        """Do nothing; a test takes this away."""


SPIDER = SiteSpider()
PROJECT = "SPIDER_MODULES = ['support.jobs']\n"
"""The settings of a project with this spider."""


def make_job(
    jobdir: Path,
    waiting: Iterable[Request | str],
    *,
    done: Iterable[str] = (),
    not_before: float | None = None,
) -> Path:
    """Make a job that has stopped: pages that are done, and requests that wait.

    Requests are taken in oldest first, as a crawl does. A job that is there gets more.
    """
    with BloomFilter.open(jobdir / "bloomdupe", 10_000, identity=IDENTITY) as seen:
        fill(HeldJob(Frontier(seen), Rules(), seen.close), waiting, done, not_before)
    return jobdir


def fill(
    job: HeldJob,
    waiting: Iterable[Request | str],
    done: Iterable[str],
    not_before: float | None = None,
) -> None:
    """Let pages be done and requests wait in a job that has stopped."""
    dump = Serializer(SPIDER).dump
    asked = [Request(one) if isinstance(one, str) else one for one in waiting]
    for request in (*map(Request, done), *asked):
        frontier = job.frontier.of_slot(_slot_of(request))
        frontier.seen.add(fingerprint(request))
    for request in asked:
        one = SentRequest(_slot_of(request), request.priority, dump(request))
        job.push(one._replace(not_before=not_before))
    job.frontier.seen.notes["run"] = "shutdown"
    job.commit()


def _slot_of(request: Request) -> str:
    return request.url.split("/")[2]


def restored(jobdir: Path) -> list[Request]:
    """Return all requests of a job, which is then of no more use."""
    found = []
    with BloomFilter.open(jobdir / "bloomdupe") as seen:
        frontier = Frontier(seen)
        while (entry := frontier.pop()) is not None:
            assert entry.payload is not None
            found.append(Serializer(SPIDER).load(entry.payload))
    return found


def as_project(settings: str) -> None:
    """Make the working directory that of a project with these settings."""
    name = f"settings_{uuid4().hex}"
    Path("scrapy.cfg").write_text(f"[settings]\ndefault = {name}\n")
    Path(f"{name}.py").write_text(settings)


RICH = [
    Request(
        "https://a.example/form",
        SPIDER.parse_item,
        method="POST",
        body=b"\x00\xff",
        headers={"X-A": ["1", "2"], "Referer": "https://a.example/"},
        cookies={"a": "b"},
        meta={"depth": 3, "list": [1, (2, 3)], "text": "ä"},
        cb_kwargs={"page": 1},
        priority=-7,
        flags=["x"],
    ),
    Request("data:,x", errback=SPIDER.parse_item, dont_filter=True),
]
"""With all that a request can have, and with next to nothing."""


def described(requests: Iterable[Request]) -> list[str]:
    """Return all that requests consist of, to compare them in any order."""
    given = (request.to_dict(spider=SPIDER) for request in requests)
    # A request without a callback is for the spider's parse.
    whole = ({**one, "callback": one["callback"] or "parse"} for one in given)
    return sorted(repr(sorted(one.items())) for one in whole)


@dataclass
class Harmless:
    """Of a type that only the project knows."""

    number: int


class Harm:
    """Makes a file when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.place,))


def run_script(
    cwd: Path, *command: object, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script, or ``scrapy``, in a fork of a process that has imported all."""
    words = [*map(str, command)]
    with tempfile.TemporaryDirectory() as folder:
        outputs = {name: str(Path(folder, name)) for name in ("output", "log")}
        task = {
            "folder": str(cwd),
            "command": words,
            "environment": {**os.environ, **environment},
            **outputs,
        }
        status = Child(task).end()
        out, err = (Path(place).read_text("latin-1") for place in outputs.values())
    return subprocess.CompletedProcess(words, status, out, err)


LONG = "x" * 4_000
"""In each of a thousand requests, it makes them more than a job commits at once."""


def killed_after(commits: int, *arguments: object, cwd: Path) -> None:
    """Run a verb in a process that kills itself after so many commits."""
    stop = Stop(point="after commit", nth=commits)
    done = run_script(cwd, BLOOMDUPE, *arguments, **stop.environment)
    assert done.returncode == -signal.SIGKILL, done


@pytest.fixture
def verb(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Verb:
    """Return a function that runs a verb, in a folder that is no project's."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Answer:
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def urls(verb: Verb, job: Path) -> list[str]:
    """Return the URLs of pending requests, in the order in which they are listed."""
    out = verb("list", job, "--json").out
    return [json.loads(line)["url"] for line in out.splitlines()]
