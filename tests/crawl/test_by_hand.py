"""Changes that a user makes to a job by hand, and their effect on its crawl.

Judged by the server's log.
"""

from __future__ import annotations

from typing import Any

import pytest
from spiders.follow import Filtered
from support.crawl import Crawl
from support.site import Site

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("engine")
def test_a_page_that_was_asked_for_by_hand_comes_again_as_before(
    crawl: Crawl, site: Site
) -> None:
    """Its rule was taken away and given back; nothing but a hand brings it back."""
    crawl.settings["BLOOMDUPE_WAIT"] = 0
    site.pages = {"/f1": ""}
    crawl.starts = ["/f1"]
    ruled: dict[str, Any] = {"BLOOMDUPE_REVISIT": [["/f1$", 3_600]]}
    crawl.run(Filtered, **ruled)
    an_hour_later: dict[str, Any] = {"before": crawl.engine.pass_time(3_600)}
    crawl.run(Filtered, **an_hour_later)
    assert site.requested == ["/f1", "/f1"]
    ruled |= an_hour_later
    run = crawl.run(Filtered, **ruled)
    assert run.stats["bloomdupe/delayed"] == 0
    assert run.requested == []
    crawl.bloomdupe("requeue", crawl.engine.job, f"{site.base}/f1")
    run = crawl.run(Filtered, **ruled)
    assert run.stats["bloomdupe/delayed"] == 1
    # Asked for once more while it waits, it does not come twice as often.
    said = crawl.bloomdupe("requeue", crawl.engine.job, f"{site.base}/f1")
    assert said == "0 pending now\n1 was pending already: not added\n"
