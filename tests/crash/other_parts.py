"""F19: third-party components raise, wait, or change their arguments, at each call.

The crawl is the idiom ``other_components`` of ``tests/idioms``. Its result must be that
of stock Scrapy with the same fault in the same call. Otherwise the exit status of the
crawl must say that it has failed, and a second run without the fault must have the
result of an undisturbed crawl.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from crawls import Crawl, Run, Stop
from judging import (
    Verdict,
    again,
    ended,
    judge,
    run_to_end,
    undisturbed,
)
from stock import Model
from stop_points import outcome_of
from support.judge import differences
from table import load
from trial import Fault, Outcome

CALLS = 12
"""Of a case."""
ERRORS = ("ValueError", "EIO", "MemoryError")
ACTIONS = (*ERRORS, "wait", "change")
OWN_ERRORS = {"pipeline process_item": "DropItem", "downloader": "IgnoreRequest"}
"""Errors that a component may raise, too, by Scrapy's documentation."""
ENDS = (
    *("plugin", "gzip", "storage", "receiver checkpoint"),
    *("table start_exporting", "table export_item", "table finish_exporting"),
)
"""Components that make the output, or belong to a checkpoint: where such a component
raises, the crawl must fail and keep its output. Stock Scrapy logs it and goes on."""

PLACES = ("JSON lines", "CSV", "site")
FIRST_FEED = ("lines export_item", "filter accepts")
"""Components of the first feed that see an item: their errors belong to this feed."""


class OtherParts(Fault):
    """A few calls of each case, from all kinds of calls in turn."""

    number = "F19"
    name = "parts of others raise, wait, or change what they are given"
    trials = 36
    cases = 3

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _Meddled(folder).tried(seed, CALLS)

    def control(self, folder: Path) -> list[Outcome]:
        """A feed does not get an item at which the exporter of another feed fails."""
        stop = Stop(call="lines export_item /7 one", action="ValueError")
        return _Meddled(folder, "sparing_other_feeds").each([stop])


class _Meddled:
    """Crawls in which a call of a part is meddled with."""

    def __init__(self, folder: Path, without: str | None = None) -> None:
        self._folder = folder
        self._without = without
        self._idiom = load()["other_components"]

    def tried(self, seed: int, count: int) -> list[Outcome]:
        """Meddle with so many calls, each of the next kind."""
        rng = random.Random(seed)
        with Crawl(self._idiom) as crawl:
            points = crawl.run(trace=True).points
        calls = [point.partition(" ")[2] for point in points if point[:5] == "call "]
        kinds = sorted({kind_of(call) for call in calls})
        stops = []
        for number in range(seed * count, (seed + 1) * count):
            kind = kinds[number % len(kinds)]
            at = rng.choice(
                [n for n, call in enumerate(calls) if kind_of(call) == kind]
            )
            own = [error for part, error in OWN_ERRORS.items() if kind.startswith(part)]
            action = rng.choice([*ACTIONS, *own])
            nth = calls[: at + 1].count(calls[at])
            stops.append(Stop(call=calls[at], nth=nth, action=action))
        return self.each(stops)

    def each(self, stops: list[Stop]) -> list[Outcome]:
        model = undisturbed(self._idiom)
        verdicts = [self._judged(model, stop) for stop in stops]
        return [outcome_of(verdict) for verdict in verdicts if verdict.stopped]

    def _judged(self, model: Model, stop: Stop) -> Verdict:
        with Crawl(self._idiom, without=self._without, place=self._folder) as crawl:
            run = crawl.run(stop)
            verdict = Verdict(stopped=[f"{stop}"] if run.stopped else [])
            if run.late:
                verdict.complaints.append(f"run {run.number} did not end")
            elif run.finished:
                verdict.complaints += self._finished(model, crawl, stop)
            else:
                verdict.complaints += self._failed(model, crawl, run, stop)
            crawl.keep = bool(verdict.complaints)
            return verdict

    def _finished(self, model: Model, crawl: Crawl, stop: Stop) -> list[str]:
        """Compare with stock Scrapy, where the call is meddled with in the same way."""
        complaints = []
        assert stop.call is not None
        ends = stop.action in ERRORS and stop.call.startswith(ENDS)
        # An exporter is tried with the first item, and has nothing to do with it yet.
        said = "fails for its first item" in crawl.runs[-1].log
        if ends and not (said or stop.call.endswith(" close")):
            complaints.append("nobody noticed: exit status 0")
        with Crawl(self._idiom, stock=True) as stock:
            theirs = stock.run(stop)
            outputs, visits = stock.outputs(), stock.visits
        expected = [outputs.jsonl, outputs.csv, visits]
        # It has no such call; or an object is closed once more when it goes, where
        # Python ignores what is raised.
        if theirs.stopped is None or ends:
            expected = [model.items, model.items, model.visits]
        elif stop.action in ERRORS and stop.call.startswith(FIRST_FEED):
            # There the feeds after it do not get the item, either.
            expected[1] = model.items
        ours = crawl.outputs()
        found = [ours.jsonl, ours.csv, crawl.visits]
        for place, one, other in zip(PLACES, expected, found, strict=True):
            if words := differences(Counter(one), Counter(other)):
                complaints.append(f"{place}: {words}")
        return complaints + again(crawl, None)

    def _failed(self, model: Model, crawl: Crawl, run: Run, stop: Stop) -> list[str]:
        """See that it may fail so, and that nothing is missing in the end."""
        complaints = []
        assert stop.call is not None
        with Crawl(self._idiom, stock=True) as stock:
            theirs = stock.run(stop)
        excused = stop.action == "MemoryError" or (
            stop.action in ERRORS and stop.call.startswith(ENDS)
        )
        if run.status != theirs.status and not (excused and run.status > 0):
            complaints.append(ended(run))
        return complaints + run_to_end(crawl) + judge(model, crawl)


def kind_of(call: str) -> str:
    """Name the part and the method: the words before the page."""
    words = [word for word in call.split() if not word.startswith("/")]
    return " ".join(words[: 2 + (words[0] == "later")])
