"""The head of a stored request: its URL, shortened."""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from bloomdupe.requests.layout import long_url, short_url, url_of

URL = "http://www.site.example/a"
HEADS = [
    "",
    "\0",
    "\1",
    "\4",
    "\5",
    "http://",
    "https://",
    "http://www.",
    "https://www",
]


@given(st.sampled_from(HEADS), st.text())
def test_a_url_can_be_shortened_and_restored(head: str, rest: str) -> None:
    url = head + rest
    if url:
        assert long_url(short_url(url)) == url


def test_the_url_of_a_payload_can_be_printed() -> None:
    payload = msgpack.packb([short_url(f"{URL}\n"), "whatever follows"])
    assert url_of(payload) == f"{URL}\\n"
