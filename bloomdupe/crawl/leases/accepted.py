"""Accepted: a request that the crawl has accepted, as its engine gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.outcomes import Key


class Accepted(NamedTuple):
    """A request that the crawl has accepted."""

    request: Request
    payload: bytes | None
    """None: it cannot be stored. Empty: it need not be stored."""
    slot: str
    parent: Lease | None
    """The request in progress that has yielded it."""
    page: Lease | None
    """The root of that request, or the item of ``start()`` that has led to it."""
    keys: Sequence[Key]
    """Marks to set, if there are any: first its fingerprint."""
    repeats: bool = False
    """Whether it is a retry or a redirect of its parent."""
    not_before: float | None = None
    """Unix time before which it is not handed out."""
    of_start: bool = False
    """Whether ``start()`` has yielded it."""
    forced: bool = False
    """Whether it is accepted even if it was seen."""
    after_form: bool = False
    """Whether it is the redirect of a form that was posted."""
