"""What several test modules share."""

from __future__ import annotations

import lzma
import os

import pytest
from shared_data import SHARED, needs


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Use all cores where pytest-xdist is there, unless told otherwise."""
    option = config.option
    if "PYTEST_XDIST_WORKER" in os.environ:  # is one of them itself
        return
    if getattr(option, "numprocesses", 0) is None and not option.usepdb:
        option.numprocesses = "auto"
        option.dist = "worksteal"


@pytest.fixture(scope="session")
def real_urls() -> list[str]:
    """299,355 URLs of government sites, distinct."""
    path = needs(SHARED / "urls" / "dev_eot.txt.xz", "needs the shared URL lists")
    return lzma.decompress(path.read_bytes()).decode().splitlines()


@pytest.fixture(scope="session")
def absent_urls() -> list[str]:
    """125,987 URLs of other sites."""
    path = needs(SHARED / "urls" / "dev_mixed.txt.xz", "needs the shared URL lists")
    return lzma.decompress(path.read_bytes()).decode().splitlines()
