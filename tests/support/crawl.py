"""Crawl: a folder in which spiders crawl a site, each run in a process of its own.

The process is a fork of a process that has imported Scrapy. It is really killed.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from support.engines import DISK, LEASE, collecting_at_once
from support.forks import Child
from support.site import PAGES, Site, Visit
from support.stops import Stop, events
from support.waiting import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy import Spider
    from typing_extensions import Self

    from support.engines import Memory
    from support.site import Pages

FEEDS = {"items.jsonl": {"format": "jsonlines"}}
"""The feed that ``Crawl.items()`` reads."""
JSON = "--json"
BLOOMDUPE = Path(sys.executable).with_name("bloomdupe")

Before: TypeAlias = "Callable[[], object]"
"""A function of a module in ``spiders/`` or ``support/``, or a ``partial`` of one."""


@dataclass(frozen=True)
class Run:
    """The result of a run."""

    name: str
    """``run`` and its number, from 0."""
    status: int
    log: str
    stats: dict[str, Any]
    visits: list[Visit]
    """The requests that the site has seen since the run began."""
    events: list[list[str]]
    """See ``stops.tell()``."""

    @property
    def requested(self) -> list[str]:
        """The paths that the site was asked for since the run began."""
        return [visit.path for visit in self.visits]

    @property
    def finish_reason(self) -> str | None:
        found = re.findall(r"Spider closed \((.*?)\)", self.log)
        return found[-1] if found else None

    @property
    def stopped(self) -> str | None:
        """The point at which the run was stopped."""
        ends = [" ".join(event[2:]) for event in self.events if event[0] == "stopped"]
        killed = self.status == -signal.SIGKILL
        return ends[0] if ends else "from outside" if killed else None

    @property
    def points(self) -> list[str]:
        """The names of the points passed, if they were written down."""
        return [" ".join(event[2:]) for event in self.events if event[0] == "point"]


class Process(Child):
    """A run that goes on; ``kill``, ``interrupt`` and ``wait`` end it."""

    def __init__(self, task: dict[str, Any], crawl: Crawl, place: Path) -> None:
        self._crawl = crawl
        self._place = place
        self._first = len(crawl.site.log)  # before it can ask for anything
        super().__init__(task)

    @property
    def json(self) -> str:
        """The output of a verb with ``--json``, without its messages."""
        return (self._place / "json").read_text("utf-8")

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds, as long as the process lives."""

        def holds() -> object:
            ended = not self.alive
            found = condition()
            assert found or not ended, f"ended before: {self.log}"
            return found

        until(holds)

    def until_requested(self, what: str | int) -> None:
        """Wait until a path, or so many pages of this run, were asked for."""
        self.until(lambda: self._crawl.site.was_requested(what, self._first))

    def until_logged(self, words: str) -> None:
        self.until(lambda: words in self.log)

    def kill(self) -> Run:
        self.send(signal.SIGKILL)
        return self.wait()

    def interrupt(self) -> Run:
        """Ask it to end, as Ctrl-C does."""
        self.send(signal.SIGINT)
        return self.wait()

    def finish(self) -> Run:
        """Wait until it has finished the crawl, and has nothing to complain of."""
        run = self.until_finished()
        assert self._crawl.engine.finished
        return run

    def until_finished(self) -> Run:
        """Wait until it says that the crawl is finished, and has ended well.

        If Redis goes back then, a slower worker still sends requests.
        """
        run = self.wait()
        assert (run.status, run.finish_reason) == (0, "finished"), run.log
        assert "Traceback" not in run.log, run.log
        return run

    def wait(self) -> Run:
        """Wait for its end, which has to come."""
        status = self.end()
        self._crawl.has_ended(self, status)
        stats = self._place / "stats.json"
        return Run(
            name=self._place.name,
            status=status,
            log=self.log,
            stats=json.loads(stats.read_text()) if stats.exists() else {},
            visits=self._crawl.site.log[self._first :],
            events=events(self._place / "events"),
        )


class Crawl:
    """Runs of spiders in one folder, on one site and one engine."""

    def __init__(
        self, place: Path, site: Site, engine: Memory = DISK, **settings: Any
    ) -> None:
        self.site = site
        self.engine = engine
        self.folder = place / "project"
        """The working directory of all runs; only their files are there."""
        self.folder.mkdir(parents=True)
        self.starts: Sequence[str] = ("/",)
        self.store = self.folder / "job" / "bloomdupe"
        """The store of a job on disk."""
        self.settings: dict[str, Any] = {
            "ADDONS": {"bloomdupe.Addon": 500},
            # An answer that is held ends by the test, never by Scrapy's 180 seconds.
            "DOWNLOAD_TIMEOUT": 2 * DEADLINE,
            "REMOTE_CONTROL_ENABLED": False,
            "RETRY_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            **engine.settings,
            **settings,
        }
        """Of all runs; the settings of a run replace them."""
        self._place = place
        self._runs = 0
        self._module = ""
        self._alive: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self._alive]:
            process.kill()

    def start(
        self,
        spider: type[Spider] | str,
        *,
        starts: Sequence[str] | None = None,
        before: Before | None = None,
        stop: str = "",
        nth: int = 1,
        at_request: int = 0,
        **settings: Any,
    ) -> Process:
        """Start a run of a spider.

        It kills itself at the ``nth`` point that is named ``stop...``, or is
        killed by the site before the answer to a request. ``before`` is called in the
        process first.
        """
        place = self._next_place()
        first = self.starts if starts is None else starts
        values = {**self.settings, **settings}
        named = spider if isinstance(spider, str) else _name_of(spider)
        self._module = named.rpartition(".")[0]
        order = {
            "spider": named,
            "starts": [self.site.base + path for path in first],
            "settings": {n: v for n, v in values.items() if v is not None},
            "stats": str(place / "stats.json"),
        }
        command = [str(Path(__file__).with_name("child.py")), json.dumps(order)]
        point = Stop(at_request or None, point=stop or None, nth=nth)
        return self._fork(command, place, before, point)

    def run(
        self, spider: type[Spider] | str, *, status: int = 0, **options: Any
    ) -> Run:
        """Run a spider to its end, which has this exit status."""
        run = self.start(spider, **options).wait()
        assert run.status == status, run.log
        return run

    def refused(self, spider: type[Spider] | str, **options: Any) -> Run:
        """Run a spider that is refused to begin."""
        run = self.run(spider, status=1, **options)
        assert not run.requested
        return run

    def killed(self, spider: type[Spider] | str, **options: Any) -> Run:
        """Run a spider until it is killed where ``stop`` or ``at_request`` says so."""
        return self.run(spider, status=-signal.SIGKILL, **options)

    def interrupted(
        self, spider: type[Spider] | str, *, after: int, **options: Any
    ) -> Run:
        """Run a spider until it has so many answers; then stop it as Ctrl-C does."""
        self.site.hold_after(after)
        process = self.start(spider, **options)
        process.until_requested(after + 1)
        process.send(signal.SIGINT)
        process.until_logged("Received SIGINT")
        self.site.release()
        run = process.wait()
        assert (run.status, run.finish_reason) == (0, "shutdown"), run.log
        return run

    def finish(
        self, spider: type[Spider] | str, workers: int = 1, **options: Any
    ) -> list[Run]:
        """Let so many workers finish the crawl together."""
        crew = [self.start(spider, **options) for _ in range(workers)]
        runs = [worker.until_finished() for worker in crew]
        assert self.engine.finished
        return runs

    @property
    def durable_pages(self) -> int:
        """How many pages are done, as of the last checkpoint on disk."""
        return self.engine.done(self.folder)

    def contents(self) -> dict[str, bytes]:
        """Return what is in the files of the runs, without locks and scripts."""
        return {
            str(file.relative_to(self.folder)): file.read_bytes()
            for file in self.folder.rglob("*")
            if file.is_file()
            and file.suffix not in (".py", ".cfg", ".pyc")
            and file.name not in ("lock.mdb", "owner.lock", "clean.json")
        }

    def items(self) -> list[Any]:
        """Return the items that all runs have put out; they need ``FEEDS``."""
        return self.engine.items(self.folder)

    def collect(self, *options: str, code: int = 0) -> str:
        """Write the feeds of a crawl on Redis into the folder; return the output.

        The folder is a project with the settings of all runs, and with the spiders of
        the module of the last run. On disk, the feeds are there already.
        """
        if not self.engine.collects:
            return ""
        self.make_project()
        words = ("collect", self.engine.job, ".", *options)
        return self.bloomdupe(*words, code=code, before=collecting_at_once)

    def make_project(self, module: str = "") -> None:
        """Make a project of the folder, with the spiders of a module, or the last."""
        lines = [f"{name} = {value!r}" for name, value in self.settings.items()]
        lines.append(f"SPIDER_MODULES = [{module or self._module!r}]")
        (self.folder / "crawl_settings.py").write_text("\n".join(lines))
        (self.folder / "scrapy.cfg").write_text("[settings]\ndefault=crawl_settings\n")

    def bloomdupe(self, *arguments: str, code: int = 0, **task: Any) -> str:
        """Run a verb of ``bloomdupe`` in the folder; return its output.

        JSON is returned alone: a verb that takes long also says how far it is.
        """
        process = self.start_bloomdupe(*arguments, **task)
        run = process.wait()
        assert run.status == code, run.log
        return process.json if JSON in arguments else run.log

    def scrapy(self, *arguments: str, status: int = 0) -> Run:
        """Run a command of ``scrapy`` in the folder to its end, with this status."""
        run = self.start_command("scrapy", *arguments).wait()
        assert run.status == status, (arguments, run.log)
        return run

    def start_bloomdupe(self, *arguments: str, **task: Any) -> Process:
        """Start a verb of ``bloomdupe``."""
        return self.start_command(str(BLOOMDUPE), *arguments, **task)

    def start_command(self, *command: str, **task: Any) -> Process:
        """Start a script, or ``scrapy``, in the folder: see ``fork_server.py``."""
        place = self._next_place()
        if JSON in command:
            task["output"] = str(place / "json")
        return self._fork([*command], place, **task)

    def has_ended(self, process: Process, status: int) -> None:
        """Wait until the site has read everything that an ended run has sent.

        If it was killed, its leases end, unless a test has leases of its own length.
        """
        if process in self._alive:
            self._alive.remove(process)
        if not self._alive:
            self.site.until_quiet()
        lease = self.settings.get("BLOOMDUPE_REDIS_LEASE")
        if status == -signal.SIGKILL and lease == LEASE:
            self.engine.pass_on(process.log, last=not self._alive)

    def _next_place(self) -> Path:
        """Make the folder in which the next run puts its log and its events."""
        place = self._place / f"run{self._runs}"
        place.mkdir()
        self._runs += 1
        return place

    def _fork(
        self,
        command: list[str],
        place: Path,
        before: Before | None = None,
        stop: Stop | None = None,
        **apart: Any,
    ) -> Process:
        environment = {"SITE": self.site.base, **apart.get("environment", {})}
        if stop is not None:
            environment |= {**stop.environment, "EVENTS": str(place / "events")}
        task = {
            "folder": str(self.folder),
            "command": command,
            "log": str(place / "log"),
            **apart,
            "before": [] if before is None else [_call_of(before)],
            "environment": environment,
        }
        if stop is not None and stop.request:
            self.site.kill_at(stop.request)
        process = Process(task, self, place)
        if stop is not None and stop.request:
            self.site.name_victim(process.pid)
        self._alive.append(process)
        return process


def _name_of(thing: Any) -> str:
    name = f"{thing.__module__}.{thing.__qualname__}"
    known = thing.__module__.startswith(("spiders.", "support."))
    assert known, f"{name} is not in tests/spiders or tests/support"
    return name


def _call_of(before: Before) -> tuple[str, list[Any]]:
    if isinstance(before, partial):
        return _name_of(before.func), [*before.args]
    return _name_of(before), []


@pytest.fixture
def pages(request: pytest.FixtureRequest) -> Pages:
    """Return the pages of ``site``: ``PAGES`` of the test module, if it has its own."""
    found: Pages = copy(getattr(request.module, "PAGES", PAGES))  # a test may change it
    return found


@pytest.fixture
def site(pages: Pages) -> Iterator[Site]:
    """Yield a site that serves ``pages``."""
    with Site(pages) as running:
        yield running


@pytest.fixture
def crawl(
    request: pytest.FixtureRequest, tmp_path: Path, site: Site
) -> Iterator[Crawl]:
    """Yield a crawl of ``site`` on disk; on each engine if the test uses ``engine``.

    All runs have the ``SETTINGS`` and the ``STARTS`` of the test module.
    """
    both = "engine" in request.fixturenames
    engine = request.getfixturevalue("engine") if both else DISK
    settings = deepcopy(getattr(request.module, "SETTINGS", {}))
    with Crawl(tmp_path, site, engine, **settings) as crawl:
        crawl.starts = getattr(request.module, "STARTS", crawl.starts)
        yield crawl
