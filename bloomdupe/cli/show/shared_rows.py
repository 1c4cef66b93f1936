"""The rows that ``info`` prints about a crawl that workers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.jobs.shared_overview import SharedOverview

__all__ = ["rows_of_shared", "slot_name"]


def rows_of_shared(crawl: SharedOverview) -> Iterator[tuple[str, str]]:
    """Yield names and values, in the order and the words of a job in a directory."""
    figures = crawl.filter()
    yield "crawl", crawl.url
    for name, value in crawl.identity.items():
        yield f"made for {name}", str(value)
    by = ", by URL" if crawl.partition_by == "url" else ""
    grown = figures.grown_partitions
    more = f", {grown:,} have grown" if grown else ""
    yield "partitions", f"{len(crawl.partitions):,}{by}{more}"
    yield "expected URLs (n), given", f"{crawl.capacity:,}"
    yield "URLs seen, counted", f"{crawl.keys:,}"
    yield "false-positive probability (p), given", f"{crawl.fpp:.3g}"
    yield "  calculated for now", f"{figures.current_fpp:.3g}"
    yield "new URLs dropped so far, expected", f"{figures.expected_loss:.3g}"
    yield "job", _state(crawl)
    yield "requests waiting", f"{crawl.pending:,}, of {crawl.taken_in:,} ever taken in"
    yield "requests under way", f"{crawl.leased:,}"
    yield "requests done", f"{crawl.done:,}"
    if crawl.aside:
        yield "requests that cannot be restored", f"{crawl.aside:,}"
        yield from (("", reason) for reason in crawl.reasons())
    yield "slots with requests waiting", f"{len(crawl.slots):,}"
    for slot, requests in crawl.largest():
        yield f"  {slot_name(slot)}", f"{requests:,}"
    yield "workers", f"{len(crawl.alive):,}"
    for worker in crawl.workers:
        gone = "" if worker.name in crawl.alive else ", has not answered lately"
        yield (
            f"  {worker.name}",
            f"{worker.partitions:,} partitions, {worker.leased:,} under way{gone}",
        )
    if crawl.unowned:
        yield "partitions that nobody has", f"{crawl.unowned:,}"
    yield "output", f"{crawl.entries:,} entries in Redis, to be collected"
    limit = f", of {size(crawl.memory_limit)}" if crawl.memory_limit else ""
    yield "memory of this Redis", f"{size(crawl.memory)} used by all data{limit}"


def slot_name(name: str) -> str:
    """Return a slot's name; lines without a page have no slot."""
    return name or "(no slot)"


def _state(crawl: SharedOverview) -> str:
    if crawl.state == "stopped":
        return "not finished: no worker is alive"
    return crawl.state
