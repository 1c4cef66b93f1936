"""Tests that lack something are skipped with a reason, and fail in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.shared_data import how_to_run, needs_package

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_the_last_lines_say_how_to_run_those_that_need_redis(processes: str) -> None:
    environment = {**os.environ, "PATH": "", "BLOOMDUPE_TEST_ALL": ""}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            processes,
            "tests/redis/test_worker_news.py",
        ],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    *_, said, summary = done.stdout.splitlines()
    count = summary.partition(" skipped")[0].rpartition(" ")[2]
    assert said == (
        f"{count} tests were skipped because they need redis-server:"
        " `apt install redis-server` runs them"
    )


def test_every_command_that_runs_skipped_tests_is_named_once() -> None:
    assert how_to_run(
        [
            "Skipped: needs moto: `pip install '.[test-all]'`",
            "Skipped: needs nginx: `apt install nginx-light`",
            "Skipped: needs PIL: `pip install '.[test-all]'`",
            "Skipped: needs the shared web sites: /nowhere is missing",
        ]
    ) == [
        "1 tests were skipped because they need nginx:"
        " `apt install nginx-light` runs them",
        "2 tests were skipped because they need PIL, moto:"
        " `pip install '.[test-all]'` runs them",
    ]


def test_a_package_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BLOOMDUPE_TEST_ALL", "")
    needs_package("pytest")
    with pytest.raises(pytest.skip.Exception, match=r"\[test-all\]"):
        needs_package("pytest", "no_such_package")
    monkeypatch.setenv("BLOOMDUPE_TEST_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="needs no_such_package"):
        needs_package("no_such_package")
