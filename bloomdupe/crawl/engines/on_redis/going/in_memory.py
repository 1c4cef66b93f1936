# mypy: ignore-errors
"""Position: the position of a request that cannot be stored, below its page.

Such a request lives in memory only and is lost in a crash. Then its *page*, the request
in progress that has yielded it, yields it again: the page is not settled before.

* A retry or redirect of a request in progress is a part of it: they have one root, one
  output and one name.
* Any other request is a root of its own. It counts before its page if its callback
  cannot have changed a value that another callback has, see
  ``carried``. Otherwise it counts together with its page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.engines.on_redis.going.shared_lease import OfPage

if TYPE_CHECKING:
    from scrapy import Request

    from bloomdupe.crawl.engines.on_redis.going.carried import CarriedValues
    from bloomdupe.crawl.engines.on_redis.going.names import OutputNames
    from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease as Lease


class Position(NamedTuple):
    """The name of a request, and the requests in progress above it."""

    name: bytes | None = None
    """None if it has no name after a crash."""
    root: Lease | None = None
    """The root of which it is a part, if there is any."""
    of_page: OfPage | None = None
    outputs: OutputNames | None = None
    """Names of the outputs of the request that it repeats, if it has the same name."""

    @property
    def above(self) -> Lease | None:
        """The root that is not settled before this request has ended."""
        return self.root if self.of_page is None else self.of_page.page

    @property
    def top(self) -> Lease | None:
        """The first root above it that has no page."""
        return None if self.above is None else self.above.top

    @property
    def may_be_apart(self) -> bool:
        """Whether it may count before its page."""
        return self.of_page is not None and self.of_page.carried is not None


def position_of(
    request: Request,
    parent: Lease | None,
    name: bytes | None,
    identity: bytes,
    values: CarriedValues,
    *,
    repeats: bool,
) -> Position:
    """Return the position of a new request, and its name unless it has a ``name``.

    ``parent`` has yielded it, or is the request that it ``repeats``.
    """
    if parent is None:
        return Position(name)
    root = parent.root if parent.root.parts else None
    if repeats:
        if name is None:
            return Position(parent.name_of(None), root, outputs=parent.output_names())
        return Position(name, root)
    carried = values.of(request, parent.middleware_values)
    recorded = name is None
    if name is None:
        name = parent.name_of(identity + (b"" if carried is None else carried.digest))
    if root is None:
        return Position(name)
    return Position(name, of_page=OfPage(root, root.top, recorded, carried))
