"""Every idiom on Redis: a worker is killed, and another worker goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared_idioms import can_be_shared, crawled
from support.redis_server import RedisServer
from table import IDIOMS, Idiom, load
from trial import OK

load()
SHARED = {name: idiom for name, idiom in IDIOMS.items() if can_be_shared(idiom)}


@pytest.mark.slow
@pytest.mark.parametrize("idiom", SHARED.values(), ids=SHARED)
def test_a_crawl_killed_on_redis_has_the_result_of_scrapy(
    tmp_path: Path, redis_server: RedisServer, idiom: Idiom
) -> None:
    seed = list(SHARED).index(idiom.name)
    assert {*crawled(tmp_path, idiom, seed, redis_server, kills=1)} <= {OK}
