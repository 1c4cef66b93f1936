"""The history of a crawl, the line in its log, and the warnings that are in time."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from spiders.follow import Follow
from support.crawl import Crawl
from support.engines import on_both_engines
from support.monitored_jobs import point
from support.site import Site

from bloomdupe import BloomFilter
from bloomdupe.crawl.in_flight.outcomes import Outcome
from bloomdupe.crawl.progress import watch
from bloomdupe.crawl.progress.history import (
    MOST_SLOTS,
    History,
    Totals,
    read_history,
    together,
)
from bloomdupe.crawl.progress.watch import warnings
from bloomdupe.jobs import open_job
from bloomdupe.jobs.view import View
from bloomdupe.store import platform
from bloomdupe.store.format import HISTORY


def view(crawl: Crawl) -> View:
    job = crawl.engine.job
    place = job if crawl.engine.collects else str(crawl.folder / job)
    return open_job(place).read()


def test_the_pages_of_all_workers_are_those_until_a_point() -> None:
    leader = [point(0, pages=1), point(10, pages=5), point(20, pages=9)]
    other = [point(5, pages=100), point(20, pages=200)]
    found = together(leader, [other, []])
    assert [one.pages for one in found] == [1, 105, 209]


@on_both_engines
def test_the_history_of_a_job_goes_on_after_a_kill(crawl: Crawl, site: Site) -> None:
    begun = time.monotonic()
    line = re.compile(r": \d+ pages \(\d+/min\), \d+ pending on \d hosts?")
    site.hold("/d")
    process = crawl.start(Follow, BLOOMDUPE_PROGRESS_INTERVAL=0.05)
    process.until_requested("/d")
    process.until(lambda: line.search(process.log))
    process.until(lambda: view(crawl).points)
    process.kill()
    site.release()
    (run,) = crawl.finish(Follow)
    assert "pending on" not in run.log
    found = view(crawl)
    assert found.endings == {1: "killed", 2: "finished"}
    points = found.points
    assert {point.run for point in points} == {1, 2}
    for name in ("time", "seconds", "pages", "duplicates", "seen"):
        values = [getattr(point, name) for point in points]
        assert values == sorted(values), name
    last = points[-1]
    assert last.pages == 13
    assert found.totals.by_class == {"1xx": 0, "2xx": 13, "3xx": 0, "4xx": 0, "5xx": 0}
    assert (last.pending, last.in_flight, last.slots, last.failed) == (0, 0, 0, 0)
    assert last.memory > 10**5
    assert found.seconds == last.seconds <= time.monotonic() - begun


def test_pages_are_counted_by_slot_up_to_a_number_of_slots() -> None:
    outcomes = []
    for slot in range(MOST_SLOTS + 1):
        outcome = Outcome()
        outcome.answers += [(200, f"{slot}.example", 7)] * 2
        outcomes.append(outcome)
    totals = Totals().plus(outcomes, 1.0, 0).plus(outcomes[:1], 2.0, 0)
    assert totals.pages == 2 * (MOST_SLOTS + 2)
    assert len(totals.by_slot) == MOST_SLOTS
    assert totals.by_slot["0.example"] == [4, 28]
    assert totals.by_slot["1.example"] == [2, 14]
    assert Totals(**vars(totals)) == totals


def test_a_long_history_stays_small(tmp_path: Path) -> None:
    with BloomFilter.open(tmp_path / "store", 1000, 1e-3) as seen:
        store: Any = seen.share_store()
        history = History()
        days = 24 * 60
        # At first with pauses: of those, too, one an hour stays.
        for minute in (*range(0, 3 * days, 10), *range(3 * days, 4 * days)):
            history.add(point(60.0 * minute, pages=minute), begins=minute == 0)
            if minute % 100 == 0:
                store.commit(history.prepare())
        history.add(point(4 * 24 * 3600, pages=4 * 24 * 60, how="finished"))
        store.commit(history.prepare())
        with store.snapshot() as snapshot:
            points = read_history(snapshot)
        # A day of minutes, three of hours, and those that are in two tiers at most.
        assert 24 * 60 + 3 * 24 <= len(points) <= 24 * 60 + 3 * 24 + 12
        assert points[0].pages == 0
        assert points[-1].pages == 4 * 24 * 60
        assert [one.how for one in points if one.how] == ["finished"]
        written = snapshot_of(store)
        assert max(len(data) for _, data in written) < 150
        store.commit(History().prepare())
        assert snapshot_of(store) == written


def snapshot_of(store: Any) -> list[tuple[bytes, bytes]]:
    with store.snapshot() as snapshot:
        return [(key, bytes(data)) for key, data in snapshot.records(HISTORY)]


# Room

SEEN = BloomFilter(1_000, 1e-3)
ROOMY: dict[str, Any] = {"disk": 10**6, "free": 10**12}


def test_what_fills_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "memory_of_machine", lambda: (100, 50))
    before = point(0, disk=1, free=10**9)
    assert not [*warnings(SEEN, None, before)]
    now = point(120, disk=1, free=9 * 10**8)
    ((name, warning),) = warnings(SEEN, before, now)
    assert "900.0 MB are free" in warning
    assert "enough for 18 min" in warning
    assert "frontier_disk_full" in warning
    ((_, warning),) = warnings(SEEN, None, point(0, disk=1, free=10**8))
    assert "100.0 MB are free on the disk of JOBDIR" in warning
    full = point(0, memory=90 << 20, **ROOMY)
    group = tmp_path / "memory.max"
    group.write_text("104857600\n")
    monkeypatch.setattr(platform, "GROUP", group)
    ((name, warning),) = warnings(SEEN, None, full)
    assert name == "memory"
    assert "the control group (memory.max) allows 104.9 MB" in warning
    group.write_text("max\n")
    assert not [*warnings(SEEN, None, full)]
    monkeypatch.setattr(watch, "memory_of_machine", lambda: (100, 5))
    ((_, warning),) = warnings(SEEN, None, full)
    assert "this machine allows 100 B" in warning
