"""Messages: the payloads of a shared crawl, with the names of their requests.

Redis accepts each name once. So a request that is offered again, by the successor of a
dead worker or after a lost answer, must have the same name again: see
:mod:`bloomdupe.crawl.engines.on_redis.going.names`.
"""

from __future__ import annotations

import json
from struct import Struct
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.engines.on_redis.going.names import name_of
from bloomdupe.redis.settled.failed_requests import FailedRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.crawl.engines.on_redis.going.answers import Answers
    from bloomdupe.redis.settled.tally import Numbers

__all__ = [
    "FAILED",
    "ITEM",
    "REQUEST",
    "REQUESTS",
    "START_PAGE",
    "Message",
    "counted",
    "failed_in",
    "joined",
    "losses_in",
    "message_of",
    "packed_failed",
    "payload_of",
    "taken_apart",
    "with_answers",
    "with_loss",
]

REQUEST, START_PAGE, ITEM, FAILED = b"R", b"S", b"I", b"F"
REQUESTS = frozenset({REQUEST, START_PAGE})
_COUNTED = b"C"
"""The kind of a message that has counts, and another message behind them."""
_ANSWERS, _LOSSES = "answers", "losses"
_HEAD, _FAILED, _LENGTH = Struct("<cB"), Struct("<IB"), Struct("<I")
_LONGEST = 255
"""Bytes of a name."""


class Message(NamedTuple):
    """The payload of a request in Redis, taken apart."""

    kind: bytes
    """``REQUEST``; ``START_PAGE``, a start request with ``dont_filter`` or a retry of
    it; ``ITEM``, lines of output that belong to no such request; or ``FAILED``, the
    failure of a request that cannot be stored.
    """
    name: bytes
    body: bytes
    """The payload of a request, as the serializer wrote it; or the lines, or failure.
    """
    counts: Numbers = MappingProxyType({})
    """Counts that come with lines of output."""

    @property
    def answers(self) -> Answers:
        """Items of a request that are in the output already, by answer."""
        return dict(self.counts.get(_ANSWERS, {}))


def payload_of(kind: bytes, name: bytes, body: bytes) -> bytes:
    """Return the payload that :func:`message_of` reads."""
    if len(name) > _LONGEST:
        name = name_of(b"long", name)
    return _HEAD.pack(kind, len(name)) + name + body


def message_of(payload: bytes) -> Message:
    """Read a payload."""
    kind, length = _HEAD.unpack_from(payload)
    end = _HEAD.size + length
    name, body = payload[_HEAD.size : end], payload[end:]
    if kind == _COUNTED:
        (size,) = _LENGTH.unpack_from(body)
        counts = json.loads(body[_LENGTH.size : _LENGTH.size + size])
        return message_of(body[_LENGTH.size + size :])._replace(counts=counts)
    return Message(kind, name, body)


def counted(payload: bytes, counts: Numbers) -> bytes:
    """Return a payload that comes with counts, if there are any."""
    if not counts:
        return payload
    packed = json.dumps(counts).encode()
    return _HEAD.pack(_COUNTED, 0) + _LENGTH.pack(len(packed)) + packed + payload


def with_answers(payload: bytes, answers: Answers) -> bytes:
    """Return the payload of a request of which these items are in the output."""
    kind, name, body, _ = message_of(payload)
    return counted(payload_of(kind, name, body), {_ANSWERS: answers} if answers else {})


def with_loss(payload: bytes, at: float) -> bytes:
    """Return the payload of a request that has cost a worker its lease at that time."""
    kind, name, body, counts = message_of(payload)
    times, _ = losses_in(payload)
    losses = {"times": times + 1, "last": int(at)}
    return counted(payload_of(kind, name, body), {**counts, _LOSSES: losses})


def losses_in(payload: bytes) -> tuple[int, int]:
    """Return how often a request has cost a worker its lease, and when it last did."""
    if not payload.startswith(_COUNTED):
        return 0, 0
    found = message_of(payload).counts.get(_LOSSES, {})
    return found.get("times", 0), found.get("last", 0)


def joined(lines: Sequence[bytes]) -> bytes:
    """Join lines; each line is preceded by its length."""
    return b"".join(b"%d:%b" % (len(line), line) for line in lines)


def taken_apart(data: bytes) -> list[bytes]:
    """Return the lines of :func:`joined`."""
    lines = []
    while data:
        length, _, data = data.partition(b":")
        lines.append(data[: int(length)])
        data = data[int(length) :]
    return lines


def packed_failed(failed: FailedRequest) -> bytes:
    """Return the body of a message about a failed request."""
    head = _FAILED.pack(failed.most, len(failed.key))
    return head + failed.key + failed.record


def failed_in(body: bytes) -> FailedRequest:
    """Read the body of a message about a failed request."""
    most, length = _FAILED.unpack_from(body)
    end = _FAILED.size + length
    return FailedRequest(body[_FAILED.size : end], body[end:], most)
