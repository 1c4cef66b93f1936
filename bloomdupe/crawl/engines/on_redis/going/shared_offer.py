# mypy: ignore-errors
"""SharedOffer: a request that a shared crawl has accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease
    from bloomdupe.crawl.leases.outcomes import Key


class SharedOffer(NamedTuple):
    """A request that the crawl has accepted."""

    request: Request
    payload: bytes | None
    """None: it cannot be stored."""
    slot: str
    parent: SharedLease | None
    """The request in progress that has yielded it."""
    identity: bytes
    """Tells it from other requests for its page; its duplicates have the same."""
    keys: Sequence[Key]
    """Marks to set, if there are any: first its fingerprint."""
    name: bytes | None = None
    """Its name, unless its parent names it. A request that is dropped as a duplicate of
    others has the name under which they are known.
    """
    start: bool = False
    """Whether ``start()`` has yielded it."""
    answers: bool = False
    """Whether the downloader has answered its parent with it."""
    repeats: bool = False
    """Whether it is a retry or a redirect of its parent."""
    not_before: float | None = None
    """Unix time before which it is not handed out."""
