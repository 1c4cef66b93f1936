"""A Ctrl-C while a crawl is opened, on a reactor other than asyncio's.

Other crawls on such reactors, and without one, are among the idioms.
"""

from __future__ import annotations

from typing import Any

import pytest
from spiders.follow import Follow
from support.crawl import Crawl
from support.site import PAGES

pytestmark = pytest.mark.slow


def test_ctrl_c_while_the_crawl_is_opened_is_no_success(crawl: Crawl) -> None:
    """Scrapy listens to it only later, and says nothing of it on such a reactor."""
    options: dict[str, Any] = {
        "DUPEFILTER_CLASS": "spiders.reactors.CtrlC",
        "TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor",
    }
    log = crawl.refused(Follow, **options).log
    assert "Ctrl-C came while the crawl was opened; run the same command again" in log
    run = crawl.run(Follow, **options)
    assert run.finish_reason == "finished"
    assert set(run.requested) == set(PAGES)
