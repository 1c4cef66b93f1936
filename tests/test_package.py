from __future__ import annotations

import subprocess
import sys

import pytest

import bloomdupe


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "code",
    [
        "import bloomdupe",
        "from bloomdupe import BloomFilter; BloomFilter(10).add('a')",
        "import bloomdupe.cli",
    ],
)
def test_without_scrapy_and_redis(code: str) -> None:
    assert not modules_after(code) & {"scrapy", "redis", "twisted"}


def test_the_dupefilter_does_need_scrapy() -> None:
    """The control of the test above."""
    assert "scrapy" in modules_after("from bloomdupe import BloomDupeFilter")


def test_public_names_are_these() -> None:
    assert bloomdupe.__all__ == [
        "Addon",
        "BloomDupeError",
        "BloomDupeFilter",
        "BloomFilter",
        "FrontierScheduler",
        "LinkFilter",
        "new_links",
    ]
    for name in bloomdupe.__all__:
        assert getattr(bloomdupe, name).__name__ == name


def test_other_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = bloomdupe.Nothing  # type: ignore[attr-defined]
