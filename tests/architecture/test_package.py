"""What the package imports and requires, and when."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from support.shared_data import REPOSITORY

import bloomdupe

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
import sys
print(*sys.modules)
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


def output_of(*words: str, cwd: Path | None = None) -> str:
    """Return the output of Python."""
    command = [sys.executable, *words]
    return subprocess.check_output(command, text=True, cwd=cwd)


def test_scrapy_and_redis_are_imported_where_they_are_needed() -> None:
    found = output_of("-c", STEPS).splitlines()
    face, filter_, all_of_it, on_redis = map(str.split, found)
    ours = [name for name in face if name.startswith("bloomdupe.")]
    assert ours == ["bloomdupe._version"]
    assert not {"scrapy", "redis", "twisted"} & {*filter_}
    assert "redis" not in all_of_it
    assert "scrapy" in all_of_it
    assert "redis" in on_redis


def test_a_plain_crawl_imports_nothing_before_it_is_needed(tmp_path: Path) -> None:
    imported = {*output_of("-c", CRAWL, cwd=tmp_path).split()}
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
    for words in ([script], ["-m", "bloomdupe"]):
        expected = f"bloomdupe {bloomdupe.__version__}\n"
        assert output_of(*words, "--version") == expected


FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:(?: .*)?\n)*", re.MULTILINE)
IMPORTED = re.compile(
    r"^ *(?:from (\w+)[\w.]* import |import (\w+)(?:\.\w+)*(?: as \w+)?(?: *#.*)?$)",
    re.MULTILINE,
)


def test_imports_and_declared_requirements_agree() -> None:
    # What is installed here may be older than what is declared.
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = toml.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *extras["metrics"], *extras["redis"]]
    declared = {
        re.split(r"[^\w-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
        for requirement in requirements
    }
    tops = {
        top
        for path in Path(bloomdupe.__file__).parent.rglob("*.py")
        for found in IMPORTED.findall(FOR_TYPES.sub("", path.read_text("utf-8")))
        for top in filter(None, found)
    }
    homes = packages_distributions()
    imported = {
        home.lower().replace("_", "-")
        for top in tops - sys.stdlib_module_names - {"bloomdupe"}
        for home in set(homes.get(top, [top]))
    }
    assert imported == declared


def test_other_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = bloomdupe.Nothing
