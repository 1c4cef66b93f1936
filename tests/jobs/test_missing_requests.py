"""A job of which a page has lost requests: each verb says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.jobs import Verb, make_job

from bloomdupe.store.lmdb import open_data

URLS = [f"https://h{number % 3}.test/{number}/{'x' * 100}" for number in range(600)]


@pytest.mark.parametrize("later", [None, 4e9])
def test_a_job_with_a_wrong_number_of_requests_in_a_page_is_refused(
    verb: Verb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    later: float | None,
) -> None:
    """The mark fits the file, as it does when the disk has changed it."""
    job = make_job(tmp_path / "job", URLS, not_before=later)
    drop_entries(job / "bloomdupe/data.mdb")
    marked = open_data.Marked(trusted=True, transaction=0)
    monkeypatch.setattr(open_data, "read_mark", lambda _: marked)
    message = "data.mdb: 597 queue records stand where 600 were written"
    for words in (["list", "job"], ["backup", "job", "copy"]):
        answer = verb(*words)
        assert answer.code == 1
        assert message in answer.err
    assert not (tmp_path / "copy").exists()


def drop_entries(file: Path) -> None:
    """Drop three entries of a leaf with requests."""
    data = bytearray(file.read_bytes())
    leaf = next(
        at
        for at in range(8192, len(data), 4096)
        if data[at + 10] == 2 and data[at : at + 4096].count(b"x" * 100) > 5
    )
    lower = int.from_bytes(data[leaf + 12 : leaf + 14], "little")
    data[leaf + 12 : leaf + 14] = (lower - 6).to_bytes(2, "little")
    file.write_bytes(data)
