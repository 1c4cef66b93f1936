"""Requests on their way to another worker."""

import pytest

from bloomdupe.frontier.sent_request import PARTITIONS, SentRequest, partition_of


@pytest.mark.parametrize(
    "sent",
    [
        SentRequest("a.test", 0, b"payload"),
        SentRequest(
            "ü\udc80", -3, b"\xff", [(b"k", True), (b"l", False)],
            start=True, not_before=1.5, dont_filter=True,
        ),
    ],
)  # fmt: skip
def test_it_is_read_as_it_was_packed(sent: SentRequest) -> None:
    read = SentRequest.read(sent.packed)
    assert read == sent._replace(keys=list(sent.keys))


WRONG = SentRequest(5, "x", 7, not_before="n").packed  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", [b"", b"\xc1", b"\x90", b"\x01", WRONG])
def test_anything_else_is_refused(entry: bytes) -> None:
    with pytest.raises(ValueError, match="no request"):
        SentRequest.read(entry)


def test_slots_are_spread_over_all_partitions() -> None:
    found = {partition_of(f"{number}.test") for number in range(500)}
    assert found == set(range(PARTITIONS))
