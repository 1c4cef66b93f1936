"""What several test modules share."""

from __future__ import annotations

import lzma
import os
import sys

import pytest
from hypothesis import HealthCheck, settings
from support.crawl import crawl, feed, pages, site
from support.engines import engine, redis_server
from support.forks import forks
from support.jobs import verb
from support.made_urls import everyday
from support.shared_data import REPOSITORY, SHARED, how_to_run

__all__ = ["crawl", "engine", "feed", "pages", "redis_server", "site", "verb"]

# Last, so that an installed bloomdupe is the one that is tested; crawler is never
# installed.
sys.path += [str(REPOSITORY / "tests" / "idioms"), str(REPOSITORY)]

LEAVE_OUT_SLOW = "BLOOMDUPE_LEAVE_OUT_SLOW"
FEW_EXAMPLES, MANY_EXAMPLES = 20, 100
"""Of each property that Hypothesis tests: where slow tests are left out, and else."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Use all cores where pytest-xdist is there, unless told otherwise.

    One process more than there are cores: many tests wait for others.
    """
    option = config.option
    if "PYTEST_XDIST_WORKER" in os.environ:  # is one of them itself
        return
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if everything and not os.environ.get("BLOOMDUPE_TEST_ALL"):
        os.environ[LEAVE_OUT_SLOW] = "1"  # for those that it starts
    if getattr(option, "numprocesses", 0) is None and not option.usepdb:
        option.numprocesses = (os.cpu_count() or 1) + 1
        option.dist = "worksteal"
    if getattr(option, "numprocesses", 0):
        forks()  # so that all workers share the servers


def pytest_sessionstart() -> None:
    """Let no property fail because the machine is slow.

    Try a few examples of each, where slow tests are left out.
    """
    examples = FEW_EXAMPLES if LEAVE_OUT_SLOW in os.environ else MANY_EXAMPLES
    settings.register_profile(
        "patient",
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("patient")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what is slow, if everything is run but not all of it.

    And a little of each fault trial, if more of each is run by itself.
    """
    left_out = set()
    if LEAVE_OUT_SLOW in os.environ:
        left_out |= {item for item in items if item.get_closest_marker("slow")}
    if os.environ.get("BLOOMDUPE_TRIALS_FOLLOW"):
        left_out |= {item for item in items if item.path.name == "test_faults.py"}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def real_urls() -> list[str]:
    """299,355 URLs of government sites, distinct; or without the list, made up."""
    return _listed("dev_eot", 150_000)


@pytest.fixture(scope="session")
def absent_urls() -> list[str]:
    """125,987 URLs of other sites; or without the list, made up."""
    return _listed("dev_mixed", 60_000)


def _listed(name: str, count: int) -> list[str]:
    path = SHARED / "urls" / f"{name}.txt.xz"
    if path.exists():
        return lzma.decompress(path.read_bytes()).decode().splitlines()
    return everyday(name, count)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how the tests can be run that need a program or a package."""
    skipped = terminalreporter.stats.get("skipped", [])
    for line in how_to_run(report.longrepr[2] for report in skipped):
        terminalreporter.write_line(line)
