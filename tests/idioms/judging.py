"""The judge of all idioms: an undisturbed crawl against a stopped crawl.

After the last run, and any number of earlier runs, there must be: the same items, each
once, in both feeds and in the pipeline's database; every page asked for that an
undisturbed crawl asks for; and no more repetitions than the requests that were in
progress at the last checkpoint before each stop, or have arrived since.
"""

from __future__ import annotations

import errno
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crawls import IdiomCrawl, Outputs, finished, last_checkpoints
from stock import Model
from support.crawl import Run
from support.engines import DISK, Memory
from support.judge import SHOWN, Verdict, compare, compare_visits
from support.stops import Stop
from table import Idiom

HINTS = ("clean.json", "owner.lock")
"""Files without which nothing is lost: they may fail to be written."""
STOPPED_TWICE = "\ntwisted.internet.error.ReactorNotRunning: "
"""Ends a traceback of Twisted when a script's own crawler gets Ctrl-C twice."""
USERS = (0, signal.SIGINT, signal.SIGTERM)
"""How a run may end that a user has stopped: well, or before Scrapy has begun."""
RUNS = 12
"""After so many runs a crawl must be finished: at most four of them are stopped."""


@dataclass
class OfStops(Verdict):
    """What is wrong; nothing if it holds. And how many stops there were."""

    stopped: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    """All that were passed, if there was to be no stop."""


def compared(expected: Outputs, found: Outputs) -> Verdict:
    """Compare items in each place."""
    verdict = Verdict()
    for place in found:
        verdict += compare(expected[place], found[place], place)
    return verdict


def allowed(run: Run, asks: int) -> int:
    """How many requests of a run that was stopped may be made again.

    A callback may have made as many requests as the idiom ``asks`` for.
    """
    jobs = last_checkpoints(run)
    late = sum(
        any(job.begun <= visit.clock < job.over for job in jobs) for visit in run.visits
    )
    return late + sum(job.under_way + asks * job.in_callbacks for job in jobs)


def judge(model: Model, crawl: IdiomCrawl) -> Verdict:
    """Say what is wrong with a crawl that has come to its end.

    On Redis, any number of requests may come again, and have tracebacks, after a kill.
    """
    items, found, on_redis = model.items, crawl.outputs(), crawl.engine.collects
    places = {"JSON lines": items, "CSV": items, "pipeline": Counter({*items})}
    verdict = compared(places, found)
    visits = crawl.visits
    repeats, asks = crawl.idiom.repeats, crawl.idiom.asks
    most = None
    if repeats is not None and not on_redis:
        most = sum(
            repeats + (0 if run.stopped is None else allowed(run, asks))
            for run in crawl.runs[:-1]
        )
    verdict += compare_visits(model.visits, visits, most)
    for run in crawl.runs[-1:] if on_redis else crawl.runs:
        well = run.stopped is None or run.status == 0
        said = run.log.count("Traceback") > run.log.count(STOPPED_TWICE)
        if well and said and not crawl.idiom.raises:
            lines = run.log.partition("Traceback")[2].splitlines()[1:]
            words = next((line for line in lines if line[:1].strip()), "Traceback")
            verdict.wrong.append(f"{run.name}: {words}")
    return verdict


def ended(run: Run) -> str:
    """Say how a run has ended."""
    last = (run.log.strip().splitlines() or [""])[-1]
    return f"{run.name} ended with {run.status}: {last[:300]}"


def run_to_end(crawl: IdiomCrawl) -> list[str]:
    """Run the command until it says that it has finished, or say why it has not."""
    if not crawl.runs:
        crawl.run_command()
    while True:
        run = crawl.runs[-1]
        if run.stopped is None and finished(run):
            return crawl.collected()
        if run.stopped is None and run.status:
            return [ended(run)]
        if len(crawl.runs) == RUNS:
            return [f"not finished after {RUNS} runs"]
        crawl.run_command()


def again(crawl: IdiomCrawl, *stops: Stop) -> Verdict:
    """Run the command of a finished job again, once for each stop: nothing changes."""
    files, outputs, verdict = crawl.contents(), crawl.outputs(), Verdict()
    for stop in stops:
        run = crawl.run_command(stop)
        if run.status and run.stopped is None:
            verdict.lost.append(ended(run))
        if asked := {visit.what for visit in run.visits}:
            verdict.wrong.append(f"{run.name} asks for {sorted(asked)[:SHOWN]}")
    verdict += compared(outputs, crawl.outputs())
    if changed := dict(crawl.contents().items() ^ files.items()):
        verdict.wrong.append(f"files have changed: {sorted(changed)}")
    return verdict


def stopped(
    idiom: Idiom,
    model: Model,
    stops: Sequence[Stop],
    *,
    engine: Memory = DISK,
    without: str | None = None,
    place: Path | None = None,
    later: Sequence[Stop] = (),
) -> OfStops:
    """Crawl, with a stop after the other, then to the end; and judge.

    Without stops, the points of the crawl are listed. See :class:`crawls.IdiomCrawl`
    for ``without``, and for ``place``, in which the folder is kept if something is
    wrong. The finished job is run again with the stops ``later``.
    """
    verdict = OfStops()
    with IdiomCrawl(idiom, engine=engine, without=without, place=place) as crawl:
        for stop in stops or [Stop(trace=True)]:
            run = crawl.run_command(stop)
            if run.stopped is not None:
                verdict.stopped.append(run.stopped)
                verdict.wrong += failed_well(run, stop)
            elif run.status or finished(run):
                break
        verdict.points = crawl.runs[0].points
        verdict.lost += run_to_end(crawl)
        verdict += judge(model, crawl)
        if later:
            verdict += again(crawl, *later)
        crawl.keep = place is not None and bool(verdict.complaints)
    return verdict


def failed_well(run: Run, stop: Stop) -> list[str]:
    """Say what is wrong with the end of a run in which something was raised."""
    if stop.action == "kill" or run.status > 0:
        return []
    assert run.stopped is not None
    # A ValueError is EIO there: see Points.reach().
    from_disk = stop.action in (*errno.errorcode.values(), "ValueError")
    if run.stopped.endswith(HINTS) and from_disk:
        return []
    if stop.action.startswith("SIG"):  # a user's: it may have come to its end
        return [] if -run.status in USERS else [ended(run)]
    if stop.action == "KeyboardInterrupt" and run.status == -signal.SIGINT:
        return []
    return [f"exit status {run.status} after {stop.action} {run.stopped}"]
