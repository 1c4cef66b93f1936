"""Small files that ask for much memory, or much time, where foreign bytes are read."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from support.jobs import Verb

from bloomdupe.foreign import check_packed
from bloomdupe.requests import values


def nested(levels: int) -> bytes:
    found = b"\x90"
    for _ in range(levels):
        found = msgpack.packb(msgpack.ExtType(1, b"\x91" + found))
    return found


PACKED = {
    "many arrays": b"\xdc\xff\xff" * 1_000 + bytes(100_000),
    "empty maps": b"\xdd" + pack(">I", 1 << 22) + b"\x80" * (1 << 22),
    "extensions in each other": nested(8_000),
}


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", PACKED)
def test_msgpack_is_measured_first(name: str) -> None:
    with at_most(4), pytest.raises(ValueError, match=r"."):
        check_packed(PACKED[name])


def test_values_in_each_other_come_back() -> None:
    """Not in more levels: each takes some of the stack of C, see the bombs below."""
    value: Any = 1
    for _ in range(90):
        value = (value,)
    assert values.unpack(values.pack(value)) == value


# The verb


EXTENSIONS = base64.b64encode(b"\x95\xa1x" + nested(400)).decode()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"url": "https://b.example/", "meta": ' + "[" * 190_000, "nested"),
        ('{"url": "https://b.example/", "cookies": [' + "{}," * 300_000, "values"),
        ('{"url": "https://b.example/", "priority": ' + "9" * 100_000, "digits"),
        (json.dumps({"url": "x", "payload": EXTENSIONS}), "nested"),
    ],
    ids=["deep", "many", "digits", "extensions"],
)
def test_a_line_that_is_a_bomb_is_named(
    verb: Verb, tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "lines").write_text(f"https://a.example/\n{line}\n")
    with at_most(32):
        answer = verb("add", "new", "--from", "lines", "--spider", "s")
    found = answer.out + answer.err
    assert answer.code == 1
    assert "1 pending now" in found
    assert "line 2: " in found
    assert said in found
    assert len(found) < 4_000


def test_a_line_without_an_end_is_no_text(verb: Verb) -> None:
    answer = verb("add", "new", "--from", "/dev/zero", "--spider", "s")
    assert answer.code == 2
    assert "cannot read /dev/zero: line 1 does not end" in answer.err
