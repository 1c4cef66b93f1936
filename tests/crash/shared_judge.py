"""The judge of a crawl that several workers share.

It knows the crawl of stock Scrapy, the log of the site, and the time at which Redis
says that a page was done. It asks no process that had a fault.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from disturbed_crawl import WORKERS, DisturbedCrawl
from support.judge import compare_visits
from support.site import Visit
from trial import OK, Outcome, crashed, lost, silently_wrong

FEEDS = ("items.jsonl", "failed.jsonl")
COMMON = '"/common'
"""A part of the items of pages with a callback that cannot be stored, to which many
pages lead; but for ``/common...off``, which are stored."""
CLOCK = 0.01
"""Seconds: the difference that two clocks may have."""
AT_HAND = 40
"""Requests that a worker has at hand or works on."""
GO_ON = {
    **dict.fromkeys(("kill", "interrupt", "interrupt twice", "collect"), 0),
    "part": 1,
    "stop": 2,
}
"""Workers that a fault may cost their leases, and that go on; else all of them."""


def judge(crawl: DisturbedCrawl) -> Outcome:
    """Compare the result of a crawl with the result of stock Scrapy."""
    log, first = crawl.site.log, len(crawl.stock.requested)
    stock = Counter(visit.what for visit in log[:first])
    visits = log[first : crawl.asked]
    for bad in (_ends(crawl), _asked(crawl, stock, visits), _items(crawl)):
        if bad is not None:
            return bad
    return _done_again(crawl, stock, visits)


def _ends(crawl: DisturbedCrawl) -> Outcome | None:
    """Look how the processes have ended."""
    complaints = [worker.complaint() for worker in crawl.workers]
    last = crawl.collectors[-1].process.wait()
    if last.status:
        complaints.append(f"collect ended with {last.status}: {last.log[-200:]}")
    if any(complaints):
        return crashed("; ".join(filter(None, complaints)))
    stored = crawl.stored
    if stored.pending or any(stored.sample.inboxes):
        return lost("something waits, though all workers have ended")
    delayed, wanted = stored.delayed, len(crawl.revisited)
    if delayed != wanted:
        return silently_wrong(f"{delayed} pages are revisited, and not {wanted}")
    return None


def _asked(
    crawl: DisturbedCrawl, stock: Counter[str], visits: list[Visit]
) -> Outcome | None:
    """Check the requests that the site has seen."""
    asked = Counter(visit.what for visit in visits)
    again = _may_go_on(crawl, at_least=1)
    # While a slot backs off, its failures do not count as tries.
    once = Counter(
        {what: _without_backoffs(what, n, stock) for what, n in asked.items()}
    )
    verdict = compare_visits(stock, once, again * AT_HAND)
    # The site fails once for all: stock Scrapy may have asked for a page more often.
    if never := set(stock) - set(asked):
        return lost(f"never asked for: {sorted(never)[:9]}")
    if verdict.wrong:
        return silently_wrong("; ".join(verdict.wrong))
    if crawl.next_day > crawl.asked:
        return silently_wrong("a crawl that had finished has asked for something")
    visited = sorted(visit.what for visit in crawl.site.log[crawl.next_day :])
    if visited != sorted(crawl.revisited):
        return silently_wrong(f"asked for on the next day: {visited}")
    return None


def _without_backoffs(what: str, times: int, stock: Counter[str]) -> int:
    return min(times, stock[what]) if what.startswith("/broken") else times


def _items(crawl: DisturbedCrawl) -> Outcome | None:
    """Look whether each item is there once, for all who may sample."""
    folder = crawl.crawl.folder
    once = Counter(_lines_of(folder))
    found = {"collect": (once, Counter(_lines_of(folder / "collected")))}
    if not crawl.deletes:
        # The visits of the next day, after which nobody collects, have items, too.
        again = Counter(line for line in once if _page_of(line) in crawl.revisited)
        found["Redis"] = once + again, Counter(line for line, _ in _outputs(crawl))
    for where, (expected, lines) in found.items():
        if gone := expected - lines:
            return lost(f"{gone.total()} items, by {where}: {min(gone)[:70]}")
        if bad := _surplus(expected, lines, where):
            return bad
    return None


def _surplus(expected: Counter[str], lines: Counter[str], where: str) -> Outcome | None:
    # Each worker does the requests that cannot be stored for itself.
    several = (x for x in lines if COMMON in x and "off" not in x)
    for line in several:
        lines[line] = min(lines[line], expected[line])
    if surplus := lines - expected:
        words = f"{surplus.total()} items too many, by {where}: {min(surplus)[:70]}"
        return silently_wrong(words)
    return None


def doubled(crawl: DisturbedCrawl) -> Outcome | None:
    """Look whether more items are in Redis than there may ever be."""
    if crawl.deletes and crawl.collectors:
        return None
    expected = Counter(_lines_of(crawl.crawl.folder))
    found = Counter(line for line, _ in _outputs(crawl))
    return _surplus(expected, found, "Redis")


def _lines_of(folder: Path) -> list[str]:
    """Return the lines of all feeds, with their numbers."""
    return [
        f"{number} {line}\n"
        for number, name in enumerate(FEEDS)
        if (folder / name).exists()
        for line in (folder / name).read_text().splitlines()
    ]


def _outputs(crawl: DisturbedCrawl) -> list[tuple[str, float]]:
    """Return the lines as Redis has them, and the Unix times of their commit."""
    return [(f"{feed} {line}\n", when) for feed, line, when in crawl.stored.lines()]


def _done_again(
    crawl: DisturbedCrawl, stock: Counter[str], visits: list[Visit]
) -> Outcome:
    """Look for pages that were asked for after they were done.

    Only a worker that has lost its lease, and does not know it yet, may do that.
    """
    if crawl.deletes:
        return OK
    outputs = _outputs(crawl)
    # Of a page with one item, that names it.
    items = Counter(_page_of(line) for line, _ in outputs)
    done = {_page_of(line): when for line, when in outputs}
    ended = {worker.name: worker.ended for worker in crawl.workers if worker.ended}

    def sent(visit: Visit) -> float:
        """Return the time by which it was sent; the site may have read it later."""
        return min(visit.time, ended.get(visit.headers["User-Agent"], visit.time))

    late = [
        visit
        for visit in visits
        if stock[visit.what] == 1
        and items[visit.what] == 1
        and sent(visit) > done[visit.what] + CLOCK
    ]
    if len(late) > _may_go_on(crawl) * AT_HAND:
        return silently_wrong(f"done again, {len(late)} pages: {late[:5]}")
    return OK


def _may_go_on(crawl: DisturbedCrawl, at_least: int = 0) -> int:
    """Return how many workers may have gone on without their leases."""
    return sum(
        times * max(at_least, GO_ON.get(what, WORKERS))
        for what, times in crawl.happened.items()
    )


def _page_of(line: str) -> str:
    return line.split('"')[3]
