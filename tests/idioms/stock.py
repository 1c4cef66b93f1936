"""The results of stock Scrapy, idiom by idiom: ``stock.json``.

Idioms are compared with this file, so that Scrapy need not crawl each of them again in
every run of the tests. Where slow tests run, the file is compared with Scrapy.
``python tests/idioms/stock.py`` writes it anew, after an idiom has changed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from crawls import IdiomCrawl, finished
from table import Idiom, load

FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Model:
    """The requests and the output of an undisturbed crawl, and its errors."""

    items: Counter[str]
    visits: Counter[str]
    complaints: list[str]


def ask_scrapy(idiom: Idiom) -> Model:
    """Let stock Scrapy crawl."""
    with IdiomCrawl(idiom, stock=True) as crawl:
        run = crawl.run_command()
        assert finished(run), run.log
        return Model(crawl.outputs()["JSON lines"], crawl.visits, [])


def of_scrapy(idiom: Idiom) -> Model:
    """Return the result of stock Scrapy, as the file has it."""
    assert idiom.name in _results(), f"{idiom.name} is new: write {FILE.name} anew"
    items, visits = _results()[idiom.name]
    return Model(Counter(items), Counter(visits), [])


@cache
def _results() -> dict[str, tuple[list[str], list[str]]]:
    results: dict[str, tuple[list[str], list[str]]] = json.loads(FILE.read_text())
    return results


def main() -> None:
    """Write an idiom a line."""
    lines = []
    for name, idiom in load().items():
        if idiom.items is None:
            model = ask_scrapy(idiom)
            both = [sorted(model.items.elements()), sorted(model.visits.elements())]
            lines.append(f"{json.dumps(name)}: {json.dumps(both)}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
