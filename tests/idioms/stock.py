"""The results of stock Scrapy, by which all others are judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache

from crawls import IdiomCrawl, finished
from table import Idiom


@dataclass(frozen=True)
class Model:
    """The requests and the output of an undisturbed crawl, and its errors."""

    items: Counter[str]
    visits: Counter[str]
    complaints: list[str]


@cache
def ask_scrapy(idiom: Idiom) -> Model:
    """Let stock Scrapy crawl, once in a process."""
    with IdiomCrawl(idiom, stock=True) as crawl:
        run = crawl.run_command()
        assert finished(run), run.log
        return Model(crawl.outputs()["JSON lines"], crawl.visits, [])
