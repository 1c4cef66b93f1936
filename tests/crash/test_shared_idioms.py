"""Every idiom on Redis: a worker is killed, and another worker goes on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from shared_idioms import can_be_shared, crawled
from support.shared_data import REPOSITORY
from table import IDIOMS, load
from trial import OK

if TYPE_CHECKING:
    from pathlib import Path

    from support.redis_server import RedisServer
    from table import Idiom

load()
SHARED = {name: idiom for name, idiom in IDIOMS.items() if can_be_shared(idiom)}


@pytest.mark.slow
@pytest.mark.parametrize("idiom", SHARED.values(), ids=SHARED)
def test_a_crawl_killed_on_redis_has_the_result_of_scrapy(
    tmp_path: Path, redis_server: RedisServer, idiom: Idiom
) -> None:
    seed = list(SHARED).index(idiom.name)
    url = redis_server.url(f"idiom {idiom.name}")
    assert {*crawled(tmp_path, idiom, seed, url, kills=1)} <= {OK}


def test_the_idioms_that_differ_are_in_the_table() -> None:
    text = (REPOSITORY / "tests" / "idioms" / "README.md").read_text("utf-8")
    _, _, part = text.partition("## Where the engines differ")
    rows = re.findall(r"^\| ([\w, ]+) \| ", part, re.MULTILINE)
    named = {name for row in rows[1:] for name in row.split(", ")}
    assert named == IDIOMS.keys() - SHARED.keys()
