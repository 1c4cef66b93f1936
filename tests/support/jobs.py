"""Jobs for the tests of the command line, made without a crawl."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pytest
from scrapy import Request, Spider
from scrapy.utils.request import fingerprint

from bloomdupe import BloomFilter
from bloomdupe.cli import main as cli
from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.frontier.frontier import Frontier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Verb: TypeAlias = Callable[..., "Answer"]

IDENTITY = {
    "spider": "site",
    "fingerprinter": "scrapy.utils.request.RequestFingerprinter",
    "exact_urls": [],
}


class Answer(NamedTuple):
    """What a verb has answered."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Answer:
    """Run a verb in this process."""
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return Answer(code, captured.out, captured.err)


class SiteSpider(Spider):
    """A spider with a second callback."""

    name = "site"

    def parse_item(self, response: object) -> None:
        """Do nothing."""


SPIDER = SiteSpider()


def make_job(
    jobdir: Path,
    waiting: Iterable[Request | str],
    *,
    done: Iterable[str] = (),
    ended: str = "shutdown",
) -> Path:
    """Make a job that has stopped: pages that are done, and requests that wait.

    Requests are taken in oldest first, as a crawl does.
    """
    serializer = Serializer(SPIDER)
    with BloomFilter.open(jobdir / "bloomdupe", 10_000, identity=IDENTITY) as seen:
        frontier = Frontier(seen)
        for url in done:
            seen.add(fingerprint(Request(url)))
        for one in waiting:
            request = Request(one) if isinstance(one, str) else one
            slot = request.url.split("/")[2]
            seen.add(fingerprint(request))
            frontier.push(slot, request.priority, serializer.dump(request))
        seen.notes["run"] = ended
        frontier.checkpoint()
    return jobdir


def bare_job(jobdir: Path, slot: str, *payloads: bytes) -> Path:
    """Make a job in which these bytes stand for requests."""
    with BloomFilter.open(jobdir / "bloomdupe", 1_000, identity=IDENTITY) as seen:
        frontier = Frontier(seen)
        for payload in payloads:
            frontier.push(slot, 0, payload)
        frontier.checkpoint()
    return jobdir


def sound(verb: Verb, jobdir: Path) -> bool:
    """Whether ``verify`` finds nothing wrong."""
    return verb("verify", jobdir).code == 0


def call(
    *arguments: str, cwd: Path, given: bytes = b"", script: str = "bloomdupe"
) -> subprocess.CompletedProcess[str]:
    """Call the console script in a process of its own."""
    return subprocess.run(
        [str(Path(sys.executable).with_name(script)), *arguments],
        cwd=cwd,
        input=given.decode("latin-1"),
        encoding="latin-1",
        capture_output=True,
        check=False,
        timeout=60,
    )


COMMIT = "bloomdupe.jobs.on_disk:StoppedJob.commit"

DYING = """
import os, signal, sys
from pkgutil import resolve_name
from bloomdupe.cli.main import main

step, times = sys.argv.pop(1), int(sys.argv.pop(1))
owner, _, name = step.rpartition(".")
done = getattr(resolve_name(owner), name)
count = 0

def dying(*arguments, **options):
    global count
    answer = done(*arguments, **options)
    count += 1
    if count == times:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer

setattr(resolve_name(owner), name, dying)
sys.exit(main())
"""


def killed_after(step: str, times: int, *arguments: object, cwd: Path) -> None:
    """Run a verb in a process that kills itself when it has done a step so many times.

    ``step`` is the full name of a method, such as ``package.module:Class.method``.
    """
    command = [sys.executable, "-c", DYING, step, str(times), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done


@pytest.fixture
def verb(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Verb:
    """Return what runs a verb, in a folder that is no project's."""
    monkeypatch.chdir(tmp_path)
    # Scrapy sets it when it finds a project, so it is to be gone afterwards, too.
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "")
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE")
    return lambda *arguments: run(capsys, *arguments)


def urls(verb: Verb, job: Path) -> list[str]:
    """Return what waits, in the order in which it is listed."""
    out = verb("list", job, "--json").out
    return [json.loads(line)["url"] for line in out.splitlines()]
