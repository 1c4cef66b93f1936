"""``bloomdupe info`` of a filter on Redis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bloomdupe import BloomFilter
from bloomdupe.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_info_of_a_url(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with BloomFilter.open(url, 100, identity={"spider": "site"}) as seen:
        seen.update(f"https://www.example/{number}" for number in range(250))
    assert main(["info", url]) == 0
    shown = capsys.readouterr().out
    for words in (url, "made for spider", "site", "250"):
        assert words in shown
    for words in ("journal", "disk", "job"):
        assert words not in shown
    assert main(["info", "--json", url]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["keys"] == 250
    assert [layer["keys"] for layer in found["layers"]] == [100, 150]


def test_other_verbs_want_a_directory(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with_password = url.replace("//", "//:open-sesame@")
    for verb in ("check", "compact"):
        words = [verb, with_password, "https://a.example/"][
            : 3 if verb == "check" else 2
        ]
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "expected a JOBDIR, or the directory of a store" in said
        assert "are info, list, top, report, import, export, collect, reset" in said
        assert "open-sesame" not in said
    assert not [*tmp_path.iterdir()]
