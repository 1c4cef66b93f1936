"""The table: its document, and settings that hold for all idioms."""

from __future__ import annotations

import re
from pathlib import Path

from crawls import SETTINGS
from support.forks import DEADLINE
from table import load

README = Path(__file__).with_name("README.md")


def test_the_document_has_every_idiom() -> None:
    _, _, text = README.read_text("utf-8").partition("| idiom | description |\n")
    rows = re.findall(r"^\| (\w+) \| (.+) \|$", text, re.MULTILINE)
    assert rows == [(name, idiom.about) for name, idiom in load().items()]


def test_a_run_is_given_up_before_a_download_times_out() -> None:
    for name, idiom in load().items():
        own = idiom.settings | (idiom.spider.custom_settings or {})
        assert (SETTINGS | own)["DOWNLOAD_TIMEOUT"] >= DEADLINE, name
