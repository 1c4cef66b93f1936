"""The judge of a crawl that several workers share.

It knows the crawl of stock Scrapy, the log of the site, and the time at which Redis
says that a page was done. It asks no process that had a fault.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from disturbed_crawl import WORKERS, DisturbedCrawl
from shared_program import SETTINGS
from support.judge import Verdict, compare, compare_visits
from support.site import Visit
from trial import OK, Outcome, crashed, lost, outcome_of, silently_wrong

from bloomdupe.store.format import DELAYED

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
    looks = (_ends, _asked, _items, _done_again)
    return next((bad for look in looks if (bad := look(crawl)) != OK), OK)


def _ends(crawl: DisturbedCrawl) -> Outcome:
    """Look how the processes have ended."""
    complaints = [worker.complaint() for worker in crawl.workers]
    last = crawl.collectors[-1].process.wait()
    if last.status:
        complaints.append(f"collect ended with {last.status}: {last.log[-200:]}")
    if any(complaints):
        return crashed("; ".join(filter(None, complaints)))
    stored = crawl.stored
    slots = [slot for one in stored.snapshots() for slot in one.slots()]
    delayed = sum(one.requests for one in slots if one.number == DELAYED)
    if sum(one.requests for one in slots) > delayed or any(stored.sample.inboxes):
        return lost("something waits, though all workers have ended")
    wanted = len(crawl.revisited)
    if delayed != wanted:
        return silently_wrong(f"{delayed} pages are revisited, and not {wanted}")
    return OK


def _asked(crawl: DisturbedCrawl) -> Outcome:
    """Check the requests that the site has seen."""
    stock = _counted(crawl.stock.visits)
    asked = _counted(crawl.visits)
    # The site fails once for all: stock Scrapy may have asked for a page more often.
    if never := set(stock) - set(asked):
        return lost(f"never asked for: {sorted(never)[:9]}")
    for what in asked:
        if what.startswith("/broken"):
            # While a slot backs off, its failures do not count as tries.
            asked[what] = min(asked[what], stock[what])
    again = _may_go_on(crawl, at_least=1) * AT_HAND
    verdict = compare_visits(stock, asked, again)
    if verdict.wrong:
        return silently_wrong("; ".join(verdict.wrong))
    if crawl.next_day > crawl.asked:
        return silently_wrong("a crawl that had finished has asked for something")
    visited = sorted(visit.what for visit in crawl.site.log[crawl.next_day :])
    if visited != sorted(crawl.revisited):
        return silently_wrong(f"asked for on the next day: {visited}")
    return OK


def _counted(visits: list[Visit]) -> Counter[str]:
    return Counter(visit.what for visit in visits)


def _items(crawl: DisturbedCrawl) -> Outcome:
    """Look whether each item is there once, for all who may sample."""
    once = _lines_of(crawl.crawl.folder)
    collected = _lines_of(crawl.crawl.folder / "collected")
    outcome = outcome_of(_compared(once, collected, "collect"))
    if outcome != OK:
        return outcome
    # The visits of the next day, after which nobody collects, have items, too.
    again = (line for line in once if _page_of(line) in crawl.revisited)
    stored = Counter(line for line, _ in _outputs(crawl))
    return outcome_of(_compared(once + Counter(again), stored, "Redis"))


def _compared(expected: Counter[str], lines: Counter[str], where: str) -> Verdict:
    # Each worker does the requests that cannot be stored for itself.
    for line in lines:
        if COMMON in line and "off" not in line:
            lines[line] = min(lines[line], expected[line])
    return compare(expected, lines, where)


def doubled(crawl: DisturbedCrawl) -> list[str]:
    """Look whether more items are in Redis than there may ever be."""
    stored = Counter(line for line, _ in _outputs(crawl))
    return _compared(_lines_of(crawl.crawl.folder), stored, "Redis").wrong


def _lines_of(folder: Path) -> Counter[str]:
    """Return the lines of all feeds, with their numbers."""
    return Counter(
        f"{number} {line}"
        for number, name in enumerate(SETTINGS["FEEDS"])
        if (folder / name).exists()
        for line in (folder / name).read_text().splitlines()
    )


def _outputs(crawl: DisturbedCrawl) -> list[tuple[str, float]]:
    """Return the lines as Redis has them, and the Unix times of their commit."""
    return [(f"{feed} {line}", when) for feed, line, when in crawl.stored.lines()]


def _done_again(crawl: DisturbedCrawl) -> Outcome:
    """Look for pages that were asked for after they were done.

    Only a worker that has lost its lease, and does not know it yet, may do that.
    """
    outputs = _outputs(crawl)
    stock = _counted(crawl.stock.visits)
    # Of a page with one item, that names it.
    items = Counter(_page_of(line) for line, _ in outputs)
    done = {_page_of(line): when for line, when in outputs}
    ended = {worker.name: worker.ended for worker in crawl.workers if worker.ended}

    def sent(visit: Visit) -> float:
        """Return the time by which it was sent; the site may have read it later."""
        return min(visit.time, ended.get(visit.headers["User-Agent"], visit.time))

    late = [
        visit
        for visit in crawl.visits
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
