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


def test_what_is_dropped_takes_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither do lines of requests that are in flight then: nothing ends them."""
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    with closing(Outcomes(tmp_path)) as outcomes:
        in_flight, acked, later = Outcome(), Outcome(), Outcome()
        for one in (in_flight, acked):
            outcomes.add_line(one, (0, b"x" * 200))
        outcomes.ack(acked)
        outcomes.drop()
        outcomes.add_line(later, (0, b"x"))
        assert not later.spilled
        outcomes.ack(later)
        outcomes.committed(1)
        assert sizes_of_files(tmp_path) == [0]


def sizes_of_files(folder: Path) -> list[int]:
    """Return the sizes of the open files of a folder; they have no names any more."""
    found = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by another thread meanwhile
            if folder in file.readlink().parents:
                found.append(file.stat().st_size)
    return found
