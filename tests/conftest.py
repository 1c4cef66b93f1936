"""Options and fixtures of several test modules."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from support.crawl import crawl, pages, site
from support.engines import engine, folder, redis_server, url
from support.forks import forks
from support.jobs import verb
from support.repetition import LEAVE_OUT_SLOW, by_default, slow_tests_run
from support.scratch import use_memory
from support.shared_data import REPOSITORY
from tldextract import TLDExtract

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

__all__ = [
    "crawl", "engine", "folder", "pages", "redis_server", "site", "url", "verb",
]  # fmt: skip

# Last, so that an installed bloomdupe is tested rather than the checkout's;
# crawler is never installed.
sys.path += [str(REPOSITORY / "tests" / "idioms"), str(REPOSITORY)]

PROJECT = "SCRAPY_SETTINGS_MODULE"
"""In the environment: the project to which a process belongs."""
os.environ.pop(PROJECT, None)

FEW_EXAMPLES, MANY_EXAMPLES = 5, 100
"""Of each property that Hypothesis tests: where slow tests are left out, and else."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Use all cores where pytest-xdist is there, unless told otherwise.

    One process more than there are cores: many tests wait for other processes.
    """
    option = config.option
    use_memory()
    if "PYTEST_XDIST_WORKER" in os.environ:  # is a worker itself
        return
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if everything and not os.environ.get("BLOOMDUPE_TEST_ALL"):
        os.environ[LEAVE_OUT_SLOW] = "1"  # for those that it starts
    if getattr(option, "numprocesses", 0) is None and not option.usepdb:
        option.numprocesses = (os.cpu_count() or 1) + 1
        option.dist = "worksteal"
    if getattr(option, "numprocesses", 0):
        # Or every process that they start would compile each module anew.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        forks()  # so that all workers share the servers


def pytest_sessionstart() -> None:
    """Let no test fail because of the network, the machine's speed, or an example.

    Scrapy's cookies need the public suffixes: without a network, the first look-up logs
    a traceback, and later look-ups are answered by tldextract's cache. The examples of
    a property stay the same until it is changed. Try a few of each, where slow tests
    are left out.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        TLDExtract()("a.example")
    examples = MANY_EXAMPLES if slow_tests_run() else FEW_EXAMPLES
    settings.register_profile(
        "patient",
        deadline=None,
        derandomize=True,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("patient")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Do not look for garbage: all that is read now stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out the slow tests, unless all are to run."""
    if not slow_tests_run():
        marks = {item: item.get_closest_marker("slow") for item in items}
        slow = {
            item for item, mark in marks.items() if mark and mark != by_default.mark
        }
        config.hook.pytest_deselected(items=list(slow))
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let verbs in this process not tell how far they are, however slow the machine.

    Their patience holds for the process, so that of one test would count for the next.
    """
    monkeypatch.setattr("bloomdupe.store.progress.PATIENCE", 1e9)


@pytest.fixture(autouse=True)
def _no_project() -> Iterator[None]:
    """Forget the project that Scrapy has found in this process, such as our own.

    A process that a later test starts would belong to it.
    """
    yield
    os.environ.pop(PROJECT, None)
