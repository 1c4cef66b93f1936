"""PageOnRedis: state of a request in progress that only the engine on Redis knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.on_redis.going.names import name_of
from bloomdupe.crawl.engines.on_redis.messages import (
    message_of,
    payload_of,
    with_answers,
)
from bloomdupe.redis.partition import Settled

if TYPE_CHECKING:
    from bloomdupe.crawl.engines.on_redis.going.answers import Answers
    from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease as Lease
    from bloomdupe.redis.partition import Offer, RedisLease, SeenMark
    from bloomdupe.redis.settled.failed_requests import FailedRequest
    from bloomdupe.redis.settled.tally import Numbers

__all__ = ["PageOnRedis"]


class PageOnRedis:
    """A request of this worker: handed out by Redis, or not storable there.

    A request that cannot be stored lives in the memory of the worker that has found it.
    """

    __slots__ = (
        "answers",
        "failed",
        "is_child",
        "is_start",
        "lease",
        "may_hold",
        "name",
        "next_visit",
        "relies",
    )

    def __init__(
        self,
        name: bytes,
        lease: RedisLease | None,
        answers: Answers | None = None,
        *,
        is_start: bool = False,
    ) -> None:
        self.name = name
        self.lease = lease
        self.answers: Answers = answers or {}
        """Items that are in the output from before it was left, by answer."""
        self.is_start = is_start
        """Whether it is a start request with ``dont_filter``, or a retry of it."""
        self.relies: dict[tuple[int, str, bytes], RedisLease] = {}
        """Pages that carry the same links."""
        self.is_child = False
        """Whether the request that is held back has the name of a child."""
        self.failed: FailedRequest | None = None
        """Its change to the failed requests, if it makes one."""
        self.next_visit: Offer | None = None
        """The request for its next visit, if that is pending when this one is done."""
        self.may_hold = True
        """Whether a request may still be held back for this."""

    def done(
        self,
        root: Lease,
        lines: list[bytes],
        marks: list[SeenMark],
        counts: Numbers,
    ) -> Settled:
        """Return the settlement of a root.

        ``marks`` are those of the requests in memory that count with it, and ``counts``
        are of all of them.
        """
        assert self.lease is not None  # noqa: S101 - Redis knows it
        both = self._successor(root), self.next_visit
        return Settled(
            self.lease,
            lines,
            [one for one in both if one is not None],
            marks,
            list(self.relies.values()),
            failed=self.failed,
            counts=counts,
        )

    def claim(self, key: bytes) -> bytes:
        """Return the name under which the request claims a key."""
        return name_of(b"claim", self.name, key)

    def _successor(self, root: Lease) -> Offer | None:
        """Return the request that takes the place of the root.

        It takes its name, too, so the outputs that the root had yielded before a crash
        are recognised. If the root has yielded other outputs this time as well, those
        of the successor may be further ones, and it keeps a name of its own: that of a
        child, if it ``is_child``, which may be pending since before a crash.
        """
        instead: Offer | None = root.instead
        if instead is None:
            return None
        outputs = 0 if root.outputs is None else root.outputs.count
        yielded = root.outcome.items + outputs > self.is_child
        kind, name, body, _ = message_of(instead.payload)
        payload = payload_of(kind, name if yielded else self.name, body)
        return instead._replace(
            payload=with_answers(payload, root.items_left),
            claimed_as=self.claim(instead.fingerprint)
            if yielded and self.is_child
            else None,
        )
