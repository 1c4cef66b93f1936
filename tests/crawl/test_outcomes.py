"""Outcomes: lines that count when their requests do, in bounded memory and one file."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import pytest

from bloomdupe.crawl.in_flight import outcomes as module
from bloomdupe.crawl.in_flight.outcomes import Outcome, Outcomes


def test_the_file_does_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    largest = []
    with closing(Outcomes(tmp_path)) as outcomes:
        for number in range(20):
            outcome = Outcome()
            for at in range(500):
                outcomes.add_line(outcome, (at % 2, b"%d-%d" % (number, at)))
            outcomes.ack(outcome)
            (size,) = sizes_of_files(tmp_path)
            largest.append(size)
            outcomes.committed(1)
            assert sizes_of_files(tmp_path) == [0]
    assert max(largest) < 2 * min(largest)


def sizes_of_files(folder: Path) -> list[int]:
    """Return the sizes of the open files of a folder; they have no names any more."""
    found = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by another thread meanwhile
            if folder in file.readlink().parents:
                found.append(file.stat().st_size)
    return found
