"""Jobs with a history and failures, made without a crawl."""

from __future__ import annotations

import time
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

from bloomdupe import BloomFilter
from bloomdupe.crawl.progress.history import History, Point, Totals
from bloomdupe.crawl.state.failures import Failure, digest_of
from bloomdupe.store.format import FAILURES, META, meta_records
from bloomdupe.store.store import Part
from support.jobs import make_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from bloomdupe.jobs.view import View
    from bloomdupe.store.store import Store


NOW = time.time()
LONG = "a" * 200 + ".example"
FAILED = [
    Failure(
        f"http://{host}/{n}", "status", 404, "HTTP status 404", 1, NOW, None, False,
        host, 0, b"\x91",
    )
    for host, count in (("b.example", 3), ("c.example", 1))
    for n in range(count)
]  # fmt: skip


@contextmanager
def store_of(job: Path) -> Iterator[Store]:
    """Open the store of a job that has stopped."""
    with BloomFilter.open(job / "bloomdupe") as seen:
        store = seen.share_store()
        assert store is not None
        yield store


def add_failures(
    job: Path, failures: Iterable[Failure], page_of: Callable[[str], bytes] = str.encode
) -> None:
    """Add failed requests to a job that has stopped, with these keys of their URLs."""
    puts = {digest_of(page_of(one.url), one.payload): one.packed() for one in failures}
    with store_of(job) as store:
        store.commit(Part(changes={FAILURES: puts}))


def add_points(job: Path, points: Iterable[Point]) -> None:
    """Add points to the history of a job that has stopped."""
    with store_of(job) as store:
        history = History()
        for one in points:
            history.add(one)
        store.commit(history.prepare())


def point(at: float, run: int = 1, **values: Any) -> Point:
    nothing: dict[str, Any] = dict.fromkeys(Point._fields, 0)
    given = {"time": NOW - 60 + at, "run": run, "seconds": at, "how": ""}
    return Point(**{**nothing, **given, **values})


def changed(view: View, **attributes: Any) -> View:
    """Return a view with other values."""
    other = copy(view)
    vars(other).update(attributes)
    return other


def monitored_job(folder: Path, *, history: bool = True) -> Path:
    """Make a job with three slots, four failures, and a minute of history.

    From one point of the history to the next there are a hundred pages; so many of the
    first host have 1,500 bytes each.
    """
    waiting = [f"http://a.example/{n}" for n in range(5)]
    waiting += ["http://b.example/1", f"http://{LONG}/1"]
    job = make_job(folder / "job", waiting)
    add_failures(job, FAILED)
    if history:
        add_points(
            job,
            (
                point(5.0 * n, pages=100 * n, pending=7, disk=1, seen=12)
                for n in range(13)
            ),
        )
        totals = Totals(1, 1_200, 1_200 * 1_500)
        totals.by_slot["a.example"] = [100, 100 * 1_500]
        record = {"crawl": {"totals": vars(totals)}}
        with store_of(job) as store:
            store.commit(Part(changes={META: meta_records(record)}))
    return job
