"""The scheduler in real crawls, judged by the log of the server and by the stats."""

from __future__ import annotations

import re
from typing import Any

import pytest
from spiders.follow import Follow
from spiders.scheduler import Command, sample_often
from support.crawl import Before, Crawl
from support.site import PAGES, Site

WHERE = pytest.mark.parametrize("jobdir", [None, "job"], ids=["memory", "job"])
ONE: dict[str, Any] = {"CONCURRENT_REQUESTS": 1}


def total(stats: dict[str, Any], *names: str) -> list[int]:
    return [stats.get(name, 0) for name in names]


@WHERE
def test_a_crawl_is_complete_and_its_stats_are_true(
    crawl: Crawl, jobdir: str | None
) -> None:
    run = crawl.run(Follow, JOBDIR=jobdir)
    assert sorted(run.requested) == sorted(PAGES)
    place = "disk" if jobdir else "memory"
    names = [
        f"scheduler/{verb}{of}"
        for verb in ("enqueued", "dequeued")
        for of in ("", f"/{place}")
    ]
    assert total(run.stats, *names) == [13] * 4
    assert run.stats["dupefilter/filtered"] == 12
    assert run.finish_reason == "finished"
    assert total(run.stats, "bloomdupe/pending", "bloomdupe/unfinished") == [0, 0]


@pytest.mark.parametrize(("concurrency", "delay"), [(2, 0), (8, 0.01)])
def test_requests_in_a_slow_middleware_leave_room_for_others(
    crawl: Crawl, concurrency: int, delay: float
) -> None:
    run = crawl.run(
        Follow,
        starts=("/", "/1", "/2", "/3"),
        DOWNLOADER_MIDDLEWARES={"spiders.scheduler.Gathers": 1},
        CONCURRENT_REQUESTS_PER_DOMAIN=concurrency,
        DOWNLOAD_DELAY=delay,
    )
    assert run.finish_reason == "finished"


def test_start_requests_that_are_new_are_work_for_a_finished_job(crawl: Crawl) -> None:
    crawl.run(Follow)
    run = crawl.run(Follow, starts=("/", "/new"))
    assert run.requested == ["/new"]
    assert run.stats["bloomdupe/runs"] == 2
    run = crawl.run(Follow, starts=("/", "/new"))
    assert run.requested == []
    assert run.stats["bloomdupe/runs"] == 2, "a run without any request was counted"
    assert "This job was finished at" in run.log
    assert 'BLOOMDUPE_START_REQUESTS = "again"' in run.log
    assert crawl.run(Follow, BLOOMDUPE_START_REQUESTS="always").requested == ["/"]


def test_a_second_process_on_the_job_is_refused(crawl: Crawl, site: Site) -> None:
    site.hold()
    first = crawl.start(Follow)
    first.until_requested("/")
    log = crawl.refused(Follow).log
    assert f"job/bloomdupe is in use by process {first.pid}" in log
    assert not (crawl.folder / "job" / "spider.state").exists()
    assert first.alive
    first.kill()
    site.release()
    run = crawl.run(Follow)
    assert "the last run was killed" in run.log
    assert set(run.requested) == set(PAGES)


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_crawl_waits_for_a_command_that_has_its_job(crawl: Crawl, when: str) -> None:
    crawl.run(Follow, CLOSESPIDER_PAGECOUNT=2, **ONE)
    if when == "before":
        run = crawl.run(Follow, before=Command)
    else:
        run = crawl.run(Follow, EXTENSIONS={"spiders.scheduler.Command": 0})
    assert "Waiting for another process that has the job" in run.log
    assert run.finish_reason == "finished"


@pytest.mark.parametrize(
    ("sample", "answers"), [(None, 1), (sample_often, 0)], ids=["checkpoint", "sample"]
)
def test_a_store_that_is_gone_ends_the_crawl(
    crawl: Crawl, site: Site, sample: Before | None, answers: int
) -> None:
    """A checkpoint finds it, or the watch over the crawl while nothing changes."""
    site.hold_after(2)
    process = crawl.start(Follow, before=sample, **ONE)
    process.until_requested(3)
    (crawl.store / "data.mdb").unlink()
    site.hold_after(answers)
    process.until_logged("The store or a feed failed, so the crawl stops")
    site.release()
    log = process.wait().log
    assert re.search(r"Closing spider \(frontier_\w+\)", log)
    assert "Traceback" not in log
