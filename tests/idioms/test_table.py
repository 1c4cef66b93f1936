"""The document has every idiom of the table, as its spider describes itself."""

from __future__ import annotations

import re
from pathlib import Path

from table import load

README = Path(__file__).with_name("README.md")


def test_the_document_has_every_idiom() -> None:
    text = README.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (.+) \| \d+ \| \d+ \|$", text, re.MULTILINE)
    assert rows == [(name, idiom.about) for name, idiom in load().items()]
