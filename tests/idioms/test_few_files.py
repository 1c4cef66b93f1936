"""Idioms that could take a file for each batch, page or request: a few are enough."""

from __future__ import annotations

import pytest
from crawls import Stop
from judging import stopped, undisturbed
from table import load

pytestmark = pytest.mark.slow

FILES = 64
"""The soft limit of open files: a crawl has some 30; each item is one in two feeds."""
STOP = Stop(point="after commit", nth=4)


@pytest.mark.parametrize("name", ["one_a_piece", "memory_tree"])
def test_few_files_are_enough(name: str) -> None:
    idiom = load()[name]
    model = undisturbed(idiom)
    assert stopped(idiom, model, [STOP], open_files=FILES).complaints == []


def test_the_control_opens_too_many_files() -> None:
    """The control: a file that stays open for each batch is too much."""
    idiom = load()["one_a_piece"]
    model = undisturbed(idiom)
    verdict = stopped(idiom, model, [STOP], open_files=FILES, without="closing_files")
    assert any("Too many open files" in words for words in verdict.complaints)
