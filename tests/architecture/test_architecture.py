"""The rooms of the package: who may import whom, and who may touch Scrapy's inside.

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
    (rules.unknown_rooms, {"valkey": ""}, "valkey is not in ROOMS"),
    (
        rules.arrows_up,
        {"store.store": "from bloomdupe.filter.bloom import BloomFilter"},
        "bloomdupe.store.store imports bloomdupe.filter.bloom",
    ),
    (
        rules.arrows_up,
        {"filter": "", "filter.bloom": "", "store.store": "from ..filter import bloom"},
        "bloomdupe.store.store imports bloomdupe.filter.bloom",
    ),
    (
        rules.arrows_up,
        {"links.link_filter": FOR_TYPES + "from bloomdupe.crawl import dupefilter"},
        "bloomdupe.links.link_filter imports bloomdupe.crawl",
    ),
    (
        rules.arrows_up,
        {"links": "from bloomdupe.feeds.feed import Feed"},
        "bloomdupe.links imports bloomdupe.feeds.feed",
    ),
    (
        rules.arrows_up,
        {"inside_scrapy.engine": "def f():\n    import bloomdupe.settings"},
        "bloomdupe.inside_scrapy.engine imports bloomdupe.settings",
    ),
    (
        rules.arrows_up,
        {"frontier.rank": "import_module('bloomdupe.crawl.leases.leases')"},
        "bloomdupe.frontier.rank imports bloomdupe.crawl.leases.leases",
    ),
    (
        rules.arrows_up,
        {"crawl.job": "from bloomdupe import BloomFilter"},
        "bloomdupe.crawl.job imports bloomdupe",
    ),
    (
        rules.circles,
        {
            "filter.layer": "from bloomdupe.filter import contents",
            "filter.contents": "from bloomdupe.filter.exact import ExactKeys",
            "filter.exact": "def f():\n    from bloomdupe.filter import layer",
        },
        "bloomdupe.filter.contents imports itself through other modules",
    ),
    (
        rules.circles,
        {
            "crawl.leases.leases": FOR_TYPES + "from bloomdupe.crawl.leases import why",
            "crawl.leases.why": "from bloomdupe.crawl.leases.leases import Leases",
        },
        "bloomdupe.crawl.leases.leases imports itself through other modules",
    ),
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
        rules.arithmetic_that_imports,
        {"filter.sizing": "from bloomdupe.store.format import PAGE_BYTES"},
        "bloomdupe.filter.sizing imports bloomdupe.store.format",
    ),
    (
        rules.arithmetic_that_imports,
        {"filter.sizing": "", "filter.hashing": "from bloomdupe.filter import sizing"},
        "bloomdupe.filter.hashing imports bloomdupe.filter.sizing",
    ),
    (
        rules.lmdb_outside,
        {"frontier.frontier": FOR_TYPES + "import lmdb"},
        "bloomdupe.frontier.frontier imports lmdb",
    ),
    (
        rules.arrows_up,
        {"filter.bloom": "import_module('bloomdupe.redis.redis_filter')"},
        "bloomdupe.filter.bloom imports bloomdupe.redis.redis_filter",
    ),
    (
        rules.arrows_up,
        {"filter.opening": "import_module('bloomdupe.redis.redis_filter')"},
        "bloomdupe.filter.opening imports bloomdupe.redis.redis_filter",
    ),
    (
        rules.redis_outside,
        {"filter.opening": "def f():\n    import redis"},
        "bloomdupe.filter.opening imports redis",
    ),
    (
        rules.redis_outside,
        {"crawl.scheduler": FOR_TYPES + "from redis.asyncio import Redis"},
        "bloomdupe.crawl.scheduler imports redis.asyncio",
    ),
    (
        rules.scrapy_outside,
        {"frontier.payload": "from scrapy import Request"},
        "bloomdupe.frontier.payload imports scrapy",
    ),
    (
        rules.scrapy_outside,
        {"cli.main": "import twisted.internet"},
        "bloomdupe.cli.main imports twisted.internet",
    ),
    (
        rules.scrapy_outside,
        {"settings": "from scrapy.settings import BaseSettings"},
        "bloomdupe.settings imports scrapy.settings",
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
    "crawl.scheduler": FOR_TYPES + "from bloomdupe.store.batch import Batch",
    "filter.layer": FOR_TYPES + "from bloomdupe.store.store import Store",
    "filter.contents": "from bloomdupe.filter.layer import Layer",
    "filter.opening": "import bloomdupe.filter.contents",
    "frontier": "from bloomdupe.filter.bloom import BloomFilter",
    "inside_scrapy": "def f(crawler):\n    return crawler.engine._slot",
    "links": "from bloomdupe.inside_scrapy import engine\n"
    "def f(self):\n    return self.engine.wake()",
    "redis": "",
    "redis.redis_filter": "import redis\n"
    "from bloomdupe.filter.opening import held_against",
    "settings": FOR_TYPES + "from scrapy.settings import BaseSettings",
    "store": "import lmdb",
    "store.store": "class A:\n    def f(self, other):\n"
    "        self._a = other._a\n        return other._replace()",
}
"""Code that the rules allow, similar to the code that they forbid."""

RULES: list[Rule] = list(dict.fromkeys(rule for rule, _, _ in BROKEN))

PUBLIC = {
    "bloomdupe": [
        "Addon",
        "Admission",
        "BloomDupeError",
        "BloomDupeFilter",
        "BloomFilter",
        "FeedExporter",
        "FrontierScheduler",
        "LinkFilter",
        "WholeFiles",
        "new_links",
    ],
    "bloomdupe.errors": [
        "BloomDupeError",
        "CheckpointRefusedError",
        "EngineError",
        "ExtraMissingError",
        "FeedChangedError",
        "FeedError",
        "IncompatibleFilterError",
        "KeyTypeError",
        "RequestTimeError",
        "SettingError",
        "StoreAccessError",
        "StoreDamagedError",
        "StoreError",
        "StoreFullError",
        "StoreIOError",
        "StoreLockedError",
        "StoreMismatchError",
        "StoreUnreachableError",
        "UnserializableError",
    ],
    "bloomdupe.feeds": ["FeedExporter"],
    "bloomdupe.filter.sizing": [
        "MAX_FPP",
        "MIN_FPP",
        "PAGE_BITS",
        "Geometry",
        "affordable_fpp",
        "check_capacity",
        "check_fpp",
        "expected_loss",
        "false_positive_rate",
        "geometry",
        "layer_geometry",
        "optimal_bits_per_key",
        "optimal_fpp",
        "optimal_hashes",
    ],
    "bloomdupe.links.scrapy_redis": [
        "ScrapyRedisFingerprinter",
    ],
    "bloomdupe.settings": [
        "DEFAULTS",
        "FAILURE_REASONS",
        "JobSettings",
        "check_reasons",
    ],
    "bloomdupe.signals": ["checkpoint"],
}
"""The modules that users import from, and the names in them."""


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


def test_the_table_of_rooms_has_no_circle() -> None:
    assert rules.rooms_in_order(rules.ROOMS) == []
    circle = {"crawl": {"links"}, "links": {"crawl"}}
    assert rules.rooms_in_order(circle) == [
        "links may import crawl, which does not stand below it"
    ]


def test_every_log_line_is_printable() -> None:
    """``logger_of`` sees to it; ``logging.getLogger`` alone does not."""
    by_hand = [
        name
        for name, path in NAMES.items()
        if name != "printable" and "getLogger(__name__)" in path.read_text("utf-8")
    ]
    assert by_hand == []


def test_all_rooms_were_looked_at() -> None:
    assert {rules.room_of(name) for name in NAMES} == set(rules.ROOMS)
    arrows = rules.imports_of(rules.modules_of(PACKAGE))
    assert any(arrow.for_types for arrow in arrows)


def test_sizes_that_two_rooms_state_are_the_same() -> None:
    """Arithmetic does not import the store, so each says it for itself."""
    assert store_format.DIGEST_BYTES == hashing.DIGEST_BYTES
    assert 8 * store_format.PAGE_BYTES == sizing.PAGE_BITS


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_these(module: str) -> None:
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


def test_every_module_can_be_imported() -> None:
    """Those that users import pin their names, see ``PUBLIC``."""
    missing = set()
    for name in OFFER:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing.add(str(error.name))
    needs_package(*missing)
    assert missing == set()
