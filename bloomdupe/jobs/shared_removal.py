"""SharedRemoval: removes a crawl that workers shared from Redis."""

from __future__ import annotations

from typing import NamedTuple

from bloomdupe.errors import StoreError
from bloomdupe.jobs.shared_overview import open_crawl, shared_overview
from bloomdupe.redis.removal import remove_frontier

__all__ = ["SharedRemoval", "removal_of"]


class SharedRemoval(NamedTuple):
    """A crawl to remove."""

    url: str
    shown: str
    """The URL without the password."""
    held: str
    """Its state, for the question to the user."""

    def remove(self) -> None:
        """Remove it.

        Raises :class:`~bloomdupe.errors.StoreError` while workers are there.
        """
        remove_frontier(self.url)


def removal_of(url: str) -> SharedRemoval:
    """Read the crawl that a URL names; refuse a URL that names no crawl."""
    with open_crawl(url) as reader:
        try:
            crawl = shared_overview(reader)
        except StoreError as error:
            held = f"it cannot be read ({error})"
        else:
            held = (
                f"{crawl.state}, {crawl.keys:,} URLs seen, {crawl.pending:,} requests"
                f" waiting, {crawl.leased:,} in progress, {crawl.done:,} done,"
                f" {crawl.entries:,} entries of output that were not collected"
            )
        return SharedRemoval(url, reader.shown, held)
