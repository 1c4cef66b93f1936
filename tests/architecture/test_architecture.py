"""The rules of the modules: their names, and who may touch Scrapy's inside.

``lint-imports`` checks which package may import which, and ruff that nobody else uses
private names. Each rule here has a control: a small package that breaks it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

import bloomdupe
from bloomdupe.filter import hashing, sizing
from bloomdupe.inside_scrapy import private_names as listed
from bloomdupe.store import format as store_format

Sources: TypeAlias = dict[str, str]
"""The source of each module, by its name."""

PACKAGE = Path(bloomdupe.__file__).parent
SOURCES: Sources = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    ): path.read_text("utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}
MOST_IN_A_FOLDER = 16
"""Modules that a reader can survey, besides the face of the folder."""
IN_SCRAPY = "bloomdupe.inside_scrapy"
OF_OTHERS = {
    # of Python
    "add", "add_done_callback", "cancelled", "co_consts", "co_name", "co_names", "cwd",
    "default_factory", "discard", "exception", "f_back", "f_globals", "find",
    "get_code", "hostname", "isoformat", "items", "loader", "now", "pop",
    "removeprefix", "replace", "reset", "rpartition", "search", "split", "startswith",
    "update", "utc", "values", "warning",
    # of Twisted, and of Scrapy's documents
    "FeedExporter", "addBoth", "allowed_domains", "bytes_received", "called",
    "callback", "connect", "crawler", "dont_filter", "engine", "engine_stopped",
    "errback", "fields_to_export", "get_downloader_middleware", "getbool", "getfloat",
    "headers_received", "meta", "method", "priority", "send_catch_log", "settings",
    "signals", "url", "value",
}  # fmt: skip
"""Attributes that ``inside_scrapy`` may use, although it does not define them."""
BY_NAME = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller"}


def crowded_folders(sources: Sources) -> list[str]:
    """No folder holds more modules than a reader can survey."""
    folders = {name.rpartition(".")[0] for name in sources}
    count = Counter(name.rpartition(".")[0] for name in sources if name not in folders)
    return [folder for folder in folders if count[folder] > MOST_IN_A_FOLDER]


def repeated_names(sources: Sources) -> list[str]:
    """A name finds one module, or one class; verbs have the names of what they do."""
    folders = {name.rpartition(".")[0] for name in sources}
    names = Counter(
        name.rpartition(".")[2]
        for name in sources
        if name not in folders and not name.startswith("bloomdupe.cli.")
    )
    for text in sources.values():
        names.update(re.findall(r"^ *class (\w+)", text, re.MULTILINE))
    return [name for name, times in names.items() if times > 1]


def engine_outside(sources: Sources) -> list[str]:
    """Only ``inside_scrapy`` reads a crawler's engine, which is undocumented."""
    reads = re.compile(r"""crawler(\.|, ?["'])engine\b""")
    return [
        name
        for name, text in sources.items()
        if not name.startswith(IN_SCRAPY) and reads.search(text)
    ]


def unlisted_names(sources: Sources) -> list[str]:
    """Each name of Scrapy that ``inside_scrapy`` uses is in ``private_names``."""
    inside = [
        [*ast.walk(ast.parse(text))]
        for name, text in sources.items()
        if name.startswith(IN_SCRAPY)
    ]
    paths = (*listed.NEEDED, *listed.OF_PIPELINES, *listed.WITH_FALLBACK)
    known = {path.rpartition(".")[2] for path in paths} | OF_OTHERS
    known |= {name for nodes in inside for node in nodes for name in _defined(node)}
    return [
        attribute
        for nodes in inside
        for node in nodes
        for attribute in _used(node, _imported(nodes))
        if attribute not in known and not attribute.startswith("__")
    ]


def _defined(node: ast.AST) -> list[str]:
    """Return the function, class or attribute that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr] if ast.unparse(node.value) in {"self", "cls"} else []
    return []


def _imported(nodes: list[ast.AST]) -> set[str]:
    """Return the modules that are imported as such."""
    found = [node.names for node in nodes if isinstance(node, ast.Import)]
    return {alias.asname or alias.name for names in found for alias in names}


def _used(node: ast.AST, modules: set[str]) -> list[str]:
    """Return the attribute that an expression uses, of what is no module."""
    if isinstance(node, ast.Attribute):
        return [] if ast.unparse(node.value) in modules else [node.attr]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
        names = (one.value for one in node.args[:2] if isinstance(one, ast.Constant))
        return [str(name) for name in names][:1]
    return []


Rule: TypeAlias = Callable[[Sources], list[str]]
BROKEN: list[tuple[Rule, Sources, list[str]]] = [
    (crowded_folders, {f"store.part{n}": "" for n in range(17)}, ["bloomdupe.store"]),
    (repeated_names, {"frontier.waiting": "", "store.waiting": ""}, ["waiting"]),
    (
        repeated_names,
        {"frontier.slots": "class Slot: ...", "store.table": "class Slot: ..."},
        ["Slot"],
    ),
    (
        engine_outside,
        {"crawl.pace": "def f(self):\n    return getattr(self._crawler, 'engine')"},
        ["bloomdupe.crawl.pace"],
    ),
    (
        unlisted_names,
        {"inside_scrapy.engine": "def f(engine):\n    return engine._start_error"},
        ["_start_error"],
    ),
    (
        unlisted_names,
        {"inside_scrapy.engine": "def f(slot):\n    return getattr(slot, 'queue', 0)"},
        ["queue"],
    ),
]


@pytest.mark.parametrize(("rule", "sources", "found"), BROKEN)
def test_the_package_obeys_and_a_violation_is_found(
    rule: Rule, sources: Sources, found: list[str]
) -> None:
    assert rule(SOURCES) == []
    assert rule({f"bloomdupe.{name}": text for name, text in sources.items()}) == found


def test_every_log_line_is_printable() -> None:
    """``logger_of`` sees to it; ``logging.getLogger`` alone does not."""
    by_hand = [name for name in SOURCES if "getLogger(__name__)" in SOURCES[name]]
    assert by_hand == []


def test_sizes_that_two_packages_state_are_the_same() -> None:
    """Arithmetic does not import the store, so each says it for itself."""
    assert store_format.DIGEST_BYTES == hashing.DIGEST_BYTES
    assert 8 * store_format.BLOCK_BYTES == sizing.BLOCK_BITS
