"""How fresh a copy of many pages is, by how the visits to them are spread.

    python tests/benchmarks/freshness.py [--pages 1000] [--days 30] [--plot FILE.svg]

The clock is simulated; the frontier, its store and the schedule are the real ones, with
a checkpoint every 1,000 visits. Pages change by chance at rates that are not told,
spread as J. Cho and H. Garcia-Molina found them ("The evolution of the Web and
implications for an incremental crawler", VLDB 2000, section 3). A page is fresh while
the copy is as it is. All schedules have the same number of visits, that of adaptive:

uniform       all pages at the same interval
adaptive      BLOOMDUPE_REVISIT's, which learns the rates from its visits
proportional  rates are known: a page that changes twice as often has twice the visits
optimum       rates are known: the optimum that Cho and Garcia-Molina prove

``--plot`` draws it; that needs matplotlib.
"""

from __future__ import annotations

import argparse
import math
import platform
import random
import tempfile
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

import lmdb
import msgpack  # type: ignore[import-untyped]

from bloomdupe import BloomFilter
from bloomdupe.crawl.requests.visits import ADAPTIVE, Look, Visit
from bloomdupe.frontier.frontier import Frontier

HOUR, DAY = 3_600.0, 86_400.0
YEAR = 365 * DAY
SPREAD = (
    (0.23, HOUR, DAY),
    (0.15, DAY, 7 * DAY),
    (0.16, 7 * DAY, 30 * DAY),
    (0.16, 30 * DAY, 120 * DAY),
    (0.30, 120 * DAY, 4 * YEAR),
)
"""Share of the pages, and between which mean times they change."""
SHORTEST = (0.5, 1, 2, 4, 8, 16, 32)
"""Hours: the lower bounds of the adaptive schedule, one for each line."""
LONGEST = 30 * DAY
BETWEEN_CHECKPOINTS = 1_000


class Page:
    """A page, and when it changes."""

    def __init__(self, number: int, days: float) -> None:
        rng = random.Random(number)
        (chosen,) = rng.choices(SPREAD, [share for share, *_ in SPREAD])
        _, least, most = chosen
        self.rate = math.exp(-rng.uniform(math.log(least), math.log(most)))
        self.changes: list[float] = []
        when = rng.expovariate(self.rate)
        while when < days * DAY:
            self.changes.append(when)
            when += rng.expovariate(self.rate)
        self.changes.append(math.inf)

    def version(self, when: float) -> int:
        return bisect_right(self.changes, when)

    def fresh_until(self, when: float) -> float:
        return self.changes[self.version(when)]


class Result(NamedTuple):
    visits: int
    fresh: float
    """Share of the time, over all pages."""


def crawl(
    pages: list[Page], days: float, after: Callable[[int, Visit, float, int], Visit]
) -> Result:
    """Visit all pages at once, and then when ``after`` says, in the real frontier."""
    end = days * DAY
    now = 0.0
    visits = 0
    fresh = 0.0
    last: list[float | None] = [None] * len(pages)
    with (
        tempfile.TemporaryDirectory(prefix="freshness-") as folder,
        BloomFilter.open(f"{folder}/s", 10_000) as seen,
    ):
        owed = Frontier(seen, wall=lambda: now)
        for number in range(len(pages)):
            owed.push("host", 0, msgpack.packb([number, Visit().values]))
        while True:
            entry = owed.lease()
            if entry is None:
                now = owed.next_due
                if now >= end:
                    break
                continue
            number, values = msgpack.unpackb(entry.payload)
            page = pages[number]
            before = last[number]
            if before is not None:
                fresh += min(now, page.fresh_until(before)) - before
            last[number] = now
            visits += 1
            visit = after(number, Visit.of(values), now, page.version(now))
            owed.settle(entry)
            payload = msgpack.packb([number, visit.values])
            owed.push("host", 0, payload, not_before=now + visit.interval)
            if visits % BETWEEN_CHECKPOINTS == 0:
                owed.checkpoint()
    for page, when in zip(pages, last, strict=True):
        assert when is not None
        fresh += min(end, page.fresh_until(when)) - when
    return Result(visits, fresh / (len(pages) * end))


def adaptive(least: float) -> Callable[[int, Visit, float, int], Visit]:
    def after(_: int, visit: Visit, now: float, version: int) -> Visit:
        look = Look(now, 200, b"%d" % version)
        return visit.after(look, ADAPTIVE, (least, LONGEST))

    return after


def at_intervals(
    intervals: list[float], rng: random.Random
) -> Callable[[int, Visit, float, int], Visit]:
    """Visit each page at its interval, the second time at a random moment in it."""

    def after(number: int, visit: Visit, _: float, __: int) -> Visit:
        interval = intervals[number] * (1.0 if visit.visits else rng.random())
        return Visit(visits=1, interval=min(max(interval, 1e-3), YEAR))

    return after


def optimum(rates: list[float], visits: float) -> list[float]:
    """Return the intervals, in seconds, that make ``visits`` visits a second in all.

    Found by search: the price of a visit, and for each rate the interval at which one
    visit more would bring just that. Independent of bloomdupe's own arithmetic.
    """

    def interval(rate: float, price: float) -> float:
        worth = rate * price
        if worth >= 1:
            return math.inf
        low, high = 1e-9, 60.0
        for _ in range(80):
            middle = (low + high) / 2
            if 1 - (1 + middle) * math.exp(-middle) < worth:
                low = middle
            else:
                high = middle
        return high / rate

    low, high = 1e-3, 1e9
    for _ in range(100):
        price = math.sqrt(low * high)
        if sum(1 / interval(rate, price) for rate in rates) > visits:
            low = price
        else:
            high = price
    return [interval(rate, high) for rate in rates]


def compare(pages: list[Page], days: float, least: float) -> dict[str, Result]:
    rates = [page.rate for page in pages]
    results = {"adaptive": crawl(pages, days, adaptive(least))}
    # The first visit to each page is the same in all schedules.
    budget = (results["adaptive"].visits - len(pages)) / (days * DAY)
    uniform = [len(pages) / budget] * len(pages)
    proportional = [sum(rates) / budget / rate for rate in rates]
    for name, intervals in (
        ("uniform", uniform),
        ("proportional", proportional),
        ("optimum", optimum(rates, budget)),
    ):
        results[name] = crawl(pages, days, at_intervals(intervals, random.Random(1)))
    return results


def plot(rows: list[dict[str, Result]], pages: int, days: float, file: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "freshness"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4))
    for name, style in (
        ("optimum", "k--"), ("adaptive", "o-"),
        ("uniform", "s-"), ("proportional", "^:"),
    ):  # fmt: skip
        # All have about as many visits as adaptive.
        found = sorted(
            (row["adaptive"].visits / pages / days * 30, 100 * row[name].fresh)
            for row in rows
        )
        axes.plot(*zip(*found, strict=True), style, label=name, markersize=5)
    axes.set_xscale("log")
    axes.set_xlabel("visits to a page in 30 days, on average")
    axes.set_ylabel("fresh, % of the time")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()
    pages = [Page(number, options.days) for number in range(options.pages)]
    print(
        f"{platform.machine()}, Python {platform.python_version()}, py-lmdb"
        f" {lmdb.__version__}; {options.pages:,} pages, {options.days:g} simulated"
        " days\n"
    )
    names = ("uniform", "adaptive", "optimum", "proportional")
    print("shortest    visits a page   " + "".join(f"{name:>14}" for name in names))
    rows = []
    for hours in SHORTEST:
        row = compare(pages, options.days, hours * HOUR)
        rows.append(row)
        print(
            f"{hours:6g} h {row['adaptive'].visits / options.pages:15.1f}    "
            + "".join(f"{100 * row[name].fresh:12.1f} %" for name in names)
        )
    if options.plot:
        plot(rows, options.pages, options.days, options.plot)


if __name__ == "__main__":
    main()
