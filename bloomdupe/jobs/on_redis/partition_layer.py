"""PartitionLayer: names of filter layers that come from partitions of a shared crawl.

Partitions have filters of their own, each with its share of the capacity, and all with
the same secret key. So another filter with that key can hold their layers, under these
names.
"""

from __future__ import annotations

from typing import NamedTuple

from bloomdupe.errors import StoreMismatchError


class PartitionLayer(NamedTuple):
    """A layer of a partition of a crawl."""

    crawl: str
    """:attr:`FrontierReader.mark <bloomdupe.redis.frontier_reader.FrontierReader>`."""
    partitions: int
    """Number of partitions."""
    rule: str
    """The digest of the rule that assigns requests to partitions; ``url`` is a rule of
    an earlier version.
    """
    partition: int
    layer: int

    @property
    def name(self) -> str:
        """The name of the layer."""
        return ":".join(map(str, self))


def parsed(name: str | None) -> PartitionLayer | None:
    """Return the partition and layer of a name; None for a filter's own layers."""
    if name is None:
        return None
    try:
        crawl, partitions, rule, *numbers = name.split(":")
        return PartitionLayer(crawl, int(partitions), rule, *map(int, numbers))
    except (ValueError, TypeError) as error:
        raise StoreMismatchError(
            f"a layer is called {name!r}, which is no partition of a shared crawl"
        ) from error
