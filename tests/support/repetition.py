"""What the default run leaves to CI: slow tests, and values of a parameter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")
LEAVE_OUT_SLOW = "BLOOMDUPE_LEAVE_OUT_SLOW"
"""Set in the environment where slow tests are left out."""

by_default = pytest.mark.slow(False)
"""Marks a test that runs by default, though its module is slow."""


def slow_tests_run() -> bool:
    """Whether slow tests run, as in CI: a test of many steps may do all of them."""
    return LEAVE_OUT_SLOW not in os.environ


def repeated(values: Iterable[T], first: int = 1) -> list[object]:
    """Return parameters, of which the first run by default, and all of them in CI.

    For values that show the same behaviour once more.
    """
    return [
        value if index < first else pytest.param(value, marks=pytest.mark.slow)
        for index, value in enumerate(values)
    ]
