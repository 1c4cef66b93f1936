"""The results of stock Scrapy, by which all others are judged."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache

from crawls import IdiomCrawl, finished
from support.engines import MEMORY
from table import Idiom


@dataclass(frozen=True)
class Model:
    """The requests and the output that a crawl must have."""

    items: Counter[str]
    visits: Counter[str]


@cache
def expected(idiom: Idiom) -> Model:
    """Let stock Scrapy crawl, once in a process; or ask the table where it cannot."""
    if idiom.items is not None:
        items = Counter(json.dumps({"page": page}) for page in idiom.items)
        return Model(items, Counter(idiom.items))
    with IdiomCrawl(idiom, engine=MEMORY, ADDONS={}) as crawl:
        run = crawl.run_command()
        assert finished(run), run.log
        return Model(crawl.outputs()["JSON lines"], crawl.visits)
