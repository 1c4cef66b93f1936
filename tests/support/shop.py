"""The shop's pages, its items, and readers of its items in files of any format."""

from __future__ import annotations

import csv
import io
import json
import marshal
import pickle
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from support.site import Page, links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Items = list[tuple[str, int]]

NAMES = "abcdefghij"
PAGES: dict[str, Page] = {
    "/": links(*(f"/{name}" for name in NAMES)),
    **{f"/{name}": links(f"/{name}1") for name in NAMES},
    **{f"/{name}1": "" for name in NAMES},
    "/new": "",
}
"""Nothing links to ``/new``."""


def items_of(path: str) -> Items:
    return [(path, number) for number in range(3)]


FOUND = sorted(PAGES.keys() - {"/new"})
ITEMS = sorted(item for path in FOUND for item in items_of(path[1:]))
NEW = sorted([*ITEMS, *items_of("new")])


def in_lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def in_csv(data: bytes) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(data.decode(), newline=""))]


def in_xml(data: bytes) -> list[dict[str, str]]:
    root = ElementTree.fromstring(data)  # noqa: S314 - we have written it
    return [{field.tag: field.text or "" for field in item} for item in root]


def in_binary(data: bytes, load: Callable[[io.BytesIO], Any]) -> list[Any]:
    stream = io.BytesIO(data)
    items = []
    while stream.tell() < len(data):
        items.append(load(stream))
    return items


def in_sums(data: bytes) -> list[Any]:
    *lines, total = data.decode().splitlines()
    assert total == f"{len(lines)} items"
    pairs = [line.rsplit(" ", 1) for line in lines]
    return [{"path": path, "number": number} for path, number in pairs]


READERS: dict[str, Callable[[bytes], list[Any]]] = {
    "jsonl": in_lines,
    "json": json.loads,
    "csv": in_csv,
    "xml": in_xml,
    "pickle": lambda data: in_binary(data, pickle.load),
    "marshal": lambda data: in_binary(data, marshal.load),
    "sums": in_sums,
}


def items_in(data: bytes, kind: str) -> Items:
    """Return path and number of the items in a feed of this format."""
    found = READERS[kind](data)
    return sorted((item["path"] or "", int(item["number"])) for item in found)


def read(*files: Path) -> Items:
    """Return path and number of the items in files; the suffixes are the formats."""
    return sorted(
        item for f in files for item in items_in(f.read_bytes(), f.suffix[1:])
    )


def mails(box: Path, kind: str = "json") -> list[Items]:
    """Return path and number of the items in each file of a mailbox."""
    return [items_in(mail.read_bytes(), kind) for mail in box.iterdir()]


def feeds(kinds: Iterable[str] = ("jsonl", "csv"), **options: Any) -> dict[str, Any]:
    """Return the setting of a feed in each format, with the same options."""
    return {f"items.{kind}": {"format": kind, **options} for kind in kinds}
