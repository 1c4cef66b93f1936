"""The output of crawls of the sample site: two feeds and a database."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

from w3lib.url import canonicalize_url

FIELDS = ["url", "status", "title", "content_type"]
"""Fields that do not depend on the order of the requests."""

SELECT = "SELECT url, status, title, content_type FROM pages"

OPTIONS = [
    "-s",
    "FEEDS="
    + json.dumps(
        {
            "items.jsonl": {"format": "jsonlines", "fields": FIELDS},
            "items.csv": {"format": "csv", "fields": FIELDS},
        }
    ),
    "-s",
    'ITEM_PIPELINES={"crawler.sqlite.SqlitePipeline": 300}',
    "-s",
    "SQLITE_FILE=pages.sqlite",
]


def read(folder: Path, base: str) -> dict[str, list[tuple[str, ...]]]:
    """Return the rows of each, sorted, with ``base`` taken off their URLs.

    Of several spellings of a URL any may have been the first.
    """
    lines = (folder / "items.jsonl").read_text("utf-8").splitlines()
    with (folder / "items.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == FIELDS
    with sqlite3.connect(folder / "pages.sqlite") as database:
        stored = database.execute(SELECT).fetchall()
    database.close()
    found = {
        "jsonl": [list(json.loads(line).values()) for line in lines],
        "csv": rows,
        "sqlite": stored,
    }
    return {
        name: sorted(
            (
                canonicalize_url(url).removeprefix(base),
                *(str("" if value is None else value) for value in others),
            )
            for url, *others in values
        )
        for name, values in found.items()
    }
