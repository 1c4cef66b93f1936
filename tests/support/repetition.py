"""The values of a test's parameter that the default run leaves to CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


def repeated(values: Iterable[T], by_default: int = 1) -> list[object]:
    """Return parameters, of which the first run by default, and all of them in CI.

    For values that show the same behaviour once more.
    """
    return [
        value if index < by_default else pytest.param(value, marks=pytest.mark.slow)
        for index, value in enumerate(values)
    ]
