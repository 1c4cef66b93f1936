"""Requests on their way to another worker."""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]
import pytest

from bloomdupe.frontier.sent_request import SentRequest


@pytest.mark.parametrize(
    "sent",
    [
        SentRequest("a.test", 0, b"payload"),
        SentRequest(
            "ü\udc80", -3, b"\xff", [(b"k", True), (b"l", False)],
            start=True, not_before=1.5, dont_filter=True, host="a.test",
        ),
    ],
)  # fmt: skip
def test_it_is_read_as_it_was_packed(sent: SentRequest) -> None:
    read = SentRequest.read(sent.packed)
    assert read == sent._replace(keys=list(sent.keys))


@pytest.mark.parametrize("host", [None, "", "a.test"])
def test_its_home_is_its_host_even_if_that_has_no_name(host: str | None) -> None:
    home = SentRequest("slot", 0, b"payload", host=host).home
    assert home == ("slot" if host is None else host)


def test_a_large_priority_is_the_nearest_within_64_bits() -> None:
    read = SentRequest.read(SentRequest("a", -(10**30), b"").packed)
    assert read.priority == 1 - (1 << 63)


NEVER = SentRequest("a", 0, b"", not_before=3e13).packed
WRONG = msgpack.packb([5, "x", 7])


@pytest.mark.parametrize("entry", [b"", b"\xc1", b"\x90", b"\x01", WRONG, NEVER])
def test_anything_else_is_refused(entry: bytes) -> None:
    with pytest.raises(ValueError, match="no request"):
        SentRequest.read(entry)
