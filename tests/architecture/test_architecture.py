"""The rules of the modules: their names, and who may touch Scrapy's inside.

Each rule has controls: small packages that break it, each of which is caught.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import rules
from support.shared_data import needs_package

import bloomdupe
from bloomdupe.filter import hashing, sizing
from bloomdupe.store import format as store_format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    Rule: TypeAlias = Callable[[Mapping[str, ast.Module]], list[str]]

PACKAGE = Path(bloomdupe.__file__).parent
NAMES = rules.files_of(PACKAGE)

OFFER = sorted(
    name
    for name in NAMES
    if not name.rpartition(".")[2].startswith("_")
    and not any(other.startswith(f"{name}.") for other in NAMES)
)
"""The modules, without rooms and machinery."""

FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "

BROKEN: list[tuple[Rule, dict[str, str], str]] = [
    (
        rules.crowded_folders,
        {f"store.part{number}": "" for number in range(17)},
        "bloomdupe.store holds 17 modules",
    ),
    (
        rules.repeated_files,
        {"frontier.waiting": "", "crawl.later.waiting": "", "redis.waiting": ""},
        "bloomdupe.crawl.later.waiting and bloomdupe.frontier.waiting and"
        " bloomdupe.redis.waiting",
    ),
    (
        rules.repeated_classes,
        {"frontier.slots": "class Slot: ...", "redis.slots": "class Slot: ..."},
        "bloomdupe.frontier.slots.Slot and bloomdupe.redis.slots.Slot",
    ),
    (
        rules.foreign_private_names,
        {"crawl.scheduler": "def f(engine):\n    return engine._slot"},
        "bloomdupe.crawl.scheduler: engine._slot",
    ),
    (
        rules.foreign_private_names,
        {"feeds.feed": "def f(exporter):\n    exporter._headers_not_written = False"},
        "bloomdupe.feeds.feed: exporter._headers_not_written",
    ),
    (
        rules.foreign_private_names,
        {"crawl.scheduler": "def f(scraper):\n    return getattr(scraper, '_x', None)"},
        "bloomdupe.crawl.scheduler: getattr(scraper, '_x', None)",
    ),
    (
        rules.foreign_private_names,
        {"addon": "from scrapy.utils.python import _looks_like_bytes"},
        "bloomdupe.addon: from scrapy.utils.python import _looks_like_bytes",
    ),
    (
        rules.foreign_private_names,
        {
            "feeds.exporter": "from scrapy.extensions import feedexport\n"
            "class FeedExporter(feedexport.FeedExporter):\n"
            "    def f(self):\n        return self._get_uri_params"
        },
        "bloomdupe.feeds.exporter: FeedExporter: self._get_uri_params",
    ),
    (
        rules.foreign_private_names,
        {
            "feeds.exporter": "from scrapy.extensions.feedexport import FeedExporter\n"
            "class Ours(FeedExporter):\n    def _start_new_batch(self): ..."
        },
        "bloomdupe.feeds.exporter: Ours replaces _start_new_batch",
    ),
    (
        rules.undocumented_imports,
        {"feeds.feed": "from scrapy.utils.conf import build_component_list"},
        "bloomdupe.feeds.feed: from scrapy.utils.conf import build_component_list",
    ),
    (
        rules.undocumented_imports,
        {"inside_scrapy.engine": "def f():\n    from scrapy.utils import defer"},
        "bloomdupe.inside_scrapy.engine: from scrapy.utils import defer",
    ),
    (
        rules.unlisted_names,
        {"inside_scrapy.engine": "def f(engine):\n    return engine._start_error"},
        "bloomdupe.inside_scrapy.engine: engine._start_error",
    ),
    (
        rules.unlisted_names,
        {"inside_scrapy.engine": "def f(slot):\n    return getattr(slot, 'queue', 0)"},
        "bloomdupe.inside_scrapy.engine: getattr(slot, 'queue', 0)",
    ),
    (
        rules.engine_outside,
        {"crawl.scheduler": "def f(crawler):\n    return crawler.engine.scraper"},
        "bloomdupe.crawl.scheduler: crawler.engine",
    ),
    (
        rules.engine_outside,
        {"crawl.pace": "def f(self):\n    return getattr(self._crawler, 'engine')"},
        "bloomdupe.crawl.pace: getattr(self._crawler, 'engine')",
    ),
]

OBEYS = {
    "cli": "",
    "cli.store": "",
    "cli.scrapy_command": "from scrapy.commands import ScrapyCommand",
    "crawl": "",
    "crawl.scheduler": FOR_TYPES + "from bloomdupe.store.participant import Batch",
    "filter.layer": FOR_TYPES + "from bloomdupe.store.store import Store",
    "filter.contents": "from bloomdupe.filter.layer import Layer",
    "frontier": "from bloomdupe.filter.bloom import BloomFilter",
    "inside_scrapy": "def f(crawler):\n    return crawler.engine._slot",
    "links": "from bloomdupe.inside_scrapy import engine\n"
    "def f(self):\n    return self.engine.wake()",
    "redis": "",
    "redis.redis_filter": "import redis\n"
    "from bloomdupe.filter.parameters import held_against",
    "settings": FOR_TYPES + "from scrapy.settings import BaseSettings",
    "store": "import lmdb",
    "store.store": "class A:\n    def f(self, other):\n"
    "        self._a = other._a\n        return other._replace()",
}
"""Code that the rules allow, similar to the code that they forbid."""

RULES: list[Rule] = list(dict.fromkeys(rule for rule, _, _ in BROKEN))


def package(sources: dict[str, str]) -> dict[str, ast.Module]:
    return {f"bloomdupe.{name}": ast.parse(text) for name, text in sources.items()}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_obeys(rule: Rule) -> None:
    assert rule(rules.modules_of(PACKAGE)) == []


@pytest.mark.parametrize(("rule", "sources", "what"), BROKEN)
def test_a_violation_of_a_rule_is_found(
    rule: Rule, sources: dict[str, str], what: str
) -> None:
    assert what in rule(package(sources))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_code_that_obeys_passes(rule: Rule) -> None:
    assert rule(package(OBEYS)) == []


def test_every_log_line_is_printable() -> None:
    """``logger_of`` sees to it; ``logging.getLogger`` alone does not."""
    by_hand = [
        name
        for name, path in NAMES.items()
        if name != "printable" and "getLogger(__name__)" in path.read_text("utf-8")
    ]
    assert by_hand == []


def test_sizes_that_two_rooms_state_are_the_same() -> None:
    """Arithmetic does not import the store, so each says it for itself."""
    assert store_format.DIGEST_BYTES == hashing.DIGEST_BYTES
    assert 8 * store_format.PAGE_BYTES == sizing.PAGE_BITS


def test_every_module_can_be_imported() -> None:
    missing = set()
    for name in OFFER:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing.add(str(error.name))
    needs_package(*missing)
    assert missing == set()
