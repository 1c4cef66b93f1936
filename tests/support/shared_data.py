"""Requirements of some tests: data beside the repository, programs and packages."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = REPOSITORY.parent / "shared"


def needs_program(name: str, package: str | None = None) -> str:
    """Return the path of a program, or skip the test without it (in CI: fail).

    It is in the Debian package of its own name, or in ``package``.
    """
    path = shutil.which(name)
    if path is None:
        _lacks(f"needs {name}: `apt install {package or name}`")
    return path


def needs_package(*names: str) -> None:
    """Skip the test without these packages (in CI: fail)."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            _lacks(f"needs {name}: `pip install '.[test-all]'`")


def how_to_run(reasons: Iterable[str]) -> list[str]:
    """Return a line for each command that runs some of the tests that were skipped.

    ``reasons`` are the reasons of all skipped tests, in any wording around them.
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    for reason in reasons:
        for name, command in re.findall("needs (\\S+): `(.+?)`", reason):
            names[command].append(name)
    return [
        f"{len(found)} tests were skipped because they need"
        f" {', '.join(sorted(set(found)))}: `{command}` runs them"
        for command, found in sorted(names.items())
    ]


def _lacks(reason: str) -> NoReturn:
    if os.environ.get("BLOOMDUPE_TEST_ALL"):
        pytest.fail(reason)
    pytest.skip(reason)
