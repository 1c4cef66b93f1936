"""The behaviour of our scheduler for its user; Scrapy's own scheduler is the judge.

Restates Scrapy's tests of its scheduler and its priority queues. These have
tests of their own: start requests on resume, redirects and retries (test_scheduler.py,
tests/crash), delays and busy slots (test_frontier.py, tests/benchmarks).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from contract_child import SCENARIOS
from scrapy import Spider
from scrapy.core.scheduler import BaseScheduler
from support.jobs import idle_crawler, run_script
from support.repetition import repeated

from bloomdupe import FrontierScheduler

CHILD = Path(__file__).parent / "contract_child.py"
SAME = [name for name in SCENARIOS if name != "unstorable"]


class Results(dict[str, dict[str, Any]]):
    """Maps ``scenario/where/which`` to the recorded behaviour."""

    def __init__(self, jobs: Path) -> None:
        super().__init__()
        self._jobs = jobs

    def __missing__(self, name: str) -> dict[str, Any]:
        done = run_script([CHILD, self._jobs, name.split("/")[1]], self._jobs)
        assert done.returncode == 0, done.stderr
        self.update(json.loads(done.stdout))
        return self[name]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(tmp_path_factory.mktemp("jobs"))


@pytest.mark.parametrize("where", repeated(["resumed", "job", "memory"]))
@pytest.mark.parametrize("scenario", SAME)
def test_it_behaves_like_scrapys_scheduler(
    results: Results, scenario: str, where: str
) -> None:
    ours, scrapys = (
        results[f"{scenario}/{where}/{which}"] for which in ("bloomdupe", "scrapy")
    )
    assert ours == scrapys
    steps, _ = SCENARIOS[scenario]
    assert ours["empty"] == [0, False]
    assert ours["full"] == [sum(ours["accepted"]), bool(steps)]
    assert len(ours["order"]) == sum(ours["accepted"])
    if where == "resumed":
        assert ours["left"] == len(ours["order"])
        assert ours["stats of Contract"]["finish_reason"] == "stopped"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["memory", "job"])
def test_unstorable_requests_are_done_and_counted_like_scrapys(
    results: Results, where: str
) -> None:
    ours, scrapys = (
        results[f"unstorable/{where}/{which}"] for which in ("bloomdupe", "scrapy")
    )
    # Scrapy takes what is in memory before what is on disk; we keep the order.
    assert ours.pop("order") == ["4", "3", "2", "1"]
    assert sorted(scrapys.pop("order")) == ["1", "2", "3", "4"]
    assert ours == scrapys
    stats = ours["stats of Contract"]
    assert stats.get("scheduler/unserializable", 0) == 2 * (where == "job")


def test_an_unstorable_request_is_found_again(
    results: Results,
) -> None:
    """Where Scrapy loses it: the request that yielded it is pending again, too."""
    assert results["unstorable/resumed/scrapy"]["left"] == 2
    ours = results["unstorable/resumed/bloomdupe"]
    assert ours["left"] == 3
    assert ours["accepted"] == [False, True, False, True], "by its parent, once more"


def test_it_is_a_scheduler() -> None:
    crawler = idle_crawler()
    crawler.spider = Spider("name")
    scheduler = FrontierScheduler.from_crawler(crawler)
    assert isinstance(scheduler, BaseScheduler)
    assert (len(scheduler), scheduler.has_pending_requests()) == (0, False)
    assert scheduler.close("never opened") is None
