"""Jobs with a history and failures, made without a crawl."""

from __future__ import annotations

import time
from copy import copy
from typing import TYPE_CHECKING, Any

from bloomdupe import BloomFilter
from bloomdupe.crawl.progress.history import History, Point, Totals
from bloomdupe.crawl.state.failures import Failure, digest_of
from bloomdupe.store.format import FAILURES, META, meta_records
from bloomdupe.store.store import Part
from support.jobs import make_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from bloomdupe.jobs.view import View


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


def by_url(failure: Failure) -> bytes:
    return failure.url.encode()


def failures_part(
    failures: Iterable[Failure], name: Callable[[Failure], bytes] = by_url
) -> Part:
    """Return the part of a transaction that stores these failures by their names."""
    puts = {digest_of(name(one)): one.packed() for one in failures}
    return Part(changes={FAILURES: puts})


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
    with BloomFilter.open(job / "bloomdupe") as seen:
        store = seen.share_store()
        assert store is not None
        store.commit(failures_part(FAILED))
        if history:
            kept = History(store)
            for n in range(13):
                made = point(5.0 * n, pages=100 * n, pending=7, disk=1, seen=12)
                kept.add(made)
            totals = Totals(1, 1_200, 1_200 * 1_500)
            totals.by_slot["a.example"] = [100, 100 * 1_500]
            record = {"crawl": {"totals": totals.record}}
            crawl = Part(changes={META: meta_records(record)})
            store.commit(kept.prepare(), crawl)
    return job
