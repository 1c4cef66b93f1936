"""Files that hold no rules, each in the place of ``rules.json``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from bloomdupe.crawl.state.rules import MOST_BYTES

FIFO, LINK, FOLDER = "a FIFO", "a link", "a folder"
NOT_REGULAR = "rules.json is not a regular file, and a symbolic link is not followed"


def _blocking(*rules: object) -> str:
    return json.dumps({"blocked": rules})


BAD = [
    ("{", "cannot read"),
    ("", "cannot read"),
    ("\udcff", "cannot read"),
    ("[]", "it is no JSON object"),
    ("[" * 100_000, "cannot read"),
    ("1" * 5_000, "cannot read"),
    (json.dumps({"bloked": []}), "it has an unknown field 'bloked'"),
    (json.dumps({"blocked": {}}), "a field has a value of another kind"),
    (json.dumps({"paused": [1]}), "a field has a value of another kind"),
    (json.dumps({"stop": True}), "a field has a value of another kind"),
    (_blocking("x"), "a field has a value of another kind"),
    (_blocking({}), "it has an unknown rule {}"),
    (_blocking({"slot": 1}), "it has an unknown rule"),
    (_blocking({"url": "http://[x"}), "Invalid IPv6 URL"),
    (_blocking({"pattern": "("}), "'(' is not a regular expression"),
    (_blocking({"pattern": "(" * 5_000}), "is not a regular expression"),
    (_blocking({"pattern": "x{99999999999999999999}"}), "is not a regular expression"),
    (" " * (MOST_BYTES + 1), f"it has more than {MOST_BYTES:,} bytes"),
    (FIFO, NOT_REGULAR),
    (LINK, NOT_REGULAR),
    (FOLDER, NOT_REGULAR),
]
"""Texts, or kinds of file, each with what is said about it."""


def make_bad(store: Path, text: str) -> None:
    """Put a file that holds no rules in the place of the rules of a store."""
    new, place = store / "bad", store / "rules.json"
    if text == FIFO:
        os.mkfifo(new)
    elif text == LINK:
        new.symlink_to("store.json")
    elif text == FOLDER:
        place.unlink(missing_ok=True)
        place.mkdir()
        return
    else:
        new.write_text(text, errors="surrogateescape")
    new.replace(place)
