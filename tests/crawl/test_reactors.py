"""The scheduler on loops other than asyncio's reactor: killed, and run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings
from spiders.reactors import Loops
from support.site import PAGES

if TYPE_CHECKING:
    from support.crawl import Crawl

pytestmark = pytest.mark.slow

SELECT: dict[str, Any] = {
    "TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"
}
NONE: dict[str, Any] = {"TWISTED_REACTOR_ENABLED": False}
without_reactor = pytest.mark.skipif(
    "TWISTED_REACTOR_ENABLED" not in Settings(),
    reason="this Scrapy cannot run without a reactor",
)


@pytest.mark.parametrize(
    ("loop", "reactor"),
    [
        (SELECT, "SelectReactor"),
        pytest.param(NONE, "NoneType", marks=without_reactor),
    ],
)
def test_killed_and_run_again_on(
    crawl: Crawl, loop: dict[str, Any], reactor: str
) -> None:
    first = crawl.killed(Loops, stop="here d", **loop)
    second = crawl.run(Loops, **loop)
    assert second.finish_reason == "finished"
    assert "Traceback" not in second.log
    assert "the last run was killed" in second.log
    assert second.stats["reactor"] == reactor
    assert second.stats["bloomdupe/checkpoints"] > 1
    assert {*first.requested, *second.requested} == set(PAGES)
    assert "/" not in second.requested, "nothing of the first run counted"


def test_ctrl_c_while_the_crawl_is_opened_is_no_success(crawl: Crawl) -> None:
    """Scrapy listens to it only later, and says nothing of it on such a reactor."""
    options: dict[str, Any] = {"DUPEFILTER_CLASS": "spiders.reactors.CtrlC", **SELECT}
    log = crawl.refused(Loops, **options).log
    assert "Ctrl-C came while the crawl was opened; run the same command again" in log
    run = crawl.run(Loops, **options)
    assert run.finish_reason == "finished"
    assert set(run.requested) == set(PAGES)
