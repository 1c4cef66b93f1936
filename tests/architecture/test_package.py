"""What the package imports and requires, and when."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from support.shared_data import REPOSITORY

import bloomdupe

FOR_USERS = ("metrics", "redis")
"""Extras that are for users, and not for those who work on bloomdupe."""


CRAWL = """
import scrapy
from scrapy.crawler import CrawlerProcess

class OnePage(scrapy.Spider):
    name = "one-page"
    start_urls = ["data:text/html,<p>one"]

    def parse(self, response):
        yield {"text": response.css("p::text").get()}

process = CrawlerProcess({
    "ADDONS": {"bloomdupe.Addon": 500},
    "FEEDS": {"items.jl": {"format": "jsonlines"}},
    "JOBDIR": "job",
    "LOG_ENABLED": False,
})
process.crawl(OnePage)
process.start()
assert open("items.jl").read() == '{"text": "one"}\\n'
"""
NOT_FOR_A_PLAIN_CRAWL = {
    "prometheus_client",
    "psutil",
    "redis",
    "scrapy.pipelines.files",
    "bloomdupe.cli",
    "bloomdupe.feeds.complete_files",
    "bloomdupe.jobs",
    "bloomdupe.monitoring",
    "bloomdupe.moving",
    "bloomdupe.store.redis",
}
"""Modules and packages that a crawl on disk, without extras, has no need of."""


STEPS = """
import sys
import bloomdupe
print(*sys.modules)
from bloomdupe import BloomFilter
BloomFilter(10).add("a")
import bloomdupe.filter.parameters, bloomdupe.cli.main
print(*sys.modules)
from bloomdupe import *
import bloomdupe.monitoring.top, bloomdupe.cli.showing
print(*sys.modules)
try:
    BloomFilter.open("unix:///nowhere#a", 10)
except OSError:
    print(*sys.modules)
"""


def test_scrapy_and_redis_are_imported_where_they_are_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEPS], capture_output=True, text=True, check=True
    )
    face, filter_, all_of_it, on_redis = map(str.split, done.stdout.splitlines())
    ours = [name for name in face if name.startswith("bloomdupe.")]
    assert ours == ["bloomdupe._version"]
    assert not {"scrapy", "redis", "twisted"} & {*filter_}
    assert "redis" not in all_of_it
    assert "scrapy" in all_of_it
    assert "redis" in on_redis


def test_a_plain_crawl_imports_nothing_before_it_is_needed(tmp_path: Path) -> None:
    code = f"{CRAWL}\nimport sys\nprint(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    imported = {*done.stdout.split()}
    assert {"bloomdupe.crawl.scheduler", "bloomdupe.feeds.exporter", "lmdb"} <= imported
    assert not {
        name
        for name in imported
        for part in NOT_FOR_A_PLAIN_CRAWL
        if name == part or name.startswith(f"{part}.")
    }


def test_the_version_is_the_same_everywhere() -> None:
    assert version("bloomdupe") == bloomdupe.__version__
    script = str(Path(sys.executable).with_name("bloomdupe"))
    for command in ([script], [sys.executable, "-m", "bloomdupe"]):
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, check=True
        )
        assert done.stdout == f"bloomdupe {bloomdupe.__version__}\n"


def nodes_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that are for types."""
    yield node
    if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
        for child in ast.iter_child_nodes(node):
            yield from nodes_of(child)


def imported_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
        return [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
    return []


def test_imports_and_declared_requirements_agree() -> None:
    # What is installed here may be older than what is declared.
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = toml.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    requirements = [
        *project["dependencies"],
        *(one for e in FOR_USERS for one in extras[e]),
    ]
    declared = {
        re.split(r"[^\w-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
        for requirement in requirements
    }
    tops = {
        name.partition(".")[0]
        for path in Path(bloomdupe.__file__).parent.rglob("*.py")
        for node in nodes_of(ast.parse(path.read_text("utf-8")))
        for name in imported_by(node)
    }
    homes = packages_distributions()
    imported = {
        home.lower().replace("_", "-")
        for top in tops - sys.stdlib_module_names - {"bloomdupe"}
        for home in set(homes.get(top, [top]))
    }
    assert imported == declared


def test_the_face_finds_all_that_it_names() -> None:
    for name in bloomdupe.__all__:
        assert getattr(bloomdupe, name).__name__ == name


def test_other_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = bloomdupe.Nothing
