"""Tests that lack something are skipped with a reason, and fail in CI."""

from __future__ import annotations

import pytest
from support.shared_data import how_to_run, needs_package


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
