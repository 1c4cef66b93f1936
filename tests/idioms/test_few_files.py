"""Idioms that could take a file for each batch, page or request: a few are enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from crawls import Stop
from judging import stopped, undisturbed
from table import load

if TYPE_CHECKING:
    from support.forks import Forks

FILES = 64
"""The soft limit of open files: a crawl has some 30; each item is one in two feeds."""
STOP = Stop(point="after commit", nth=4)


@pytest.fixture
def few_files(forks: Forks) -> Forks:
    """Return processes with that limit."""
    return forks.limited(open_files=FILES)


@pytest.mark.parametrize(
    "name", ["one_a_piece", "batches", "lambda_chain", "object_meta"]
)
def test_few_files_are_enough(forks: Forks, few_files: Forks, name: str) -> None:
    idiom = load()[name]
    model = undisturbed(idiom, forks)
    assert stopped(idiom, few_files, model, [STOP]).complaints == []


def test_the_limit_bites(forks: Forks, few_files: Forks) -> None:
    """The control: a file that stays open for each batch is too much."""
    idiom = load()["one_a_piece"]
    model = undisturbed(idiom, forks)
    verdict = stopped(idiom, few_files, model, [STOP], without="closing_files")
    assert any("Too many open files" in words for words in verdict.complaints)
