"""Spiders of crawls that move to Redis."""

from __future__ import annotations

from spiders import workers


class All(workers.All):
    """All pages of a site, as if they were on seven hosts."""


class Other(All):
    """The same by another name."""

    name = "other"
