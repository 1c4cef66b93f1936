"""Features: abilities that not every engine has, and the settings that ask for them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Feature", "refused_settings"]


class Feature(Enum):
    """A feature of an engine; its value are the settings that ask for it."""

    EXACT_URLS = ("BLOOMDUPE_CONFIRM", "BLOOMDUPE_EXACT_URLS", "BLOOMDUPE_GROWTH")
    FAILED_REQUESTS = ("BLOOMDUPE_MAX_FAILURES", "BLOOMDUPE_RETRY_FAILED")
    FILES = (
        "BLOOMDUPE_ALLOW_NETWORK_FS",
        "BLOOMDUPE_CHECKPOINT_INTERVAL",
        "BLOOMDUPE_FEED_CHANGED",
        "BLOOMDUPE_FILTER_MEMORY",
    )
    LATER = (
        "BLOOMDUPE_REVISIT",
        "BLOOMDUPE_REVISIT_BOUNDS",
        "BLOOMDUPE_REVISIT_ITEMS",
        "BLOOMDUPE_WAIT",
    )
    """Requests that are scheduled for later, and pages that come again."""
    METRICS = ("BLOOMDUPE_METRICS_HOST", "BLOOMDUPE_METRICS_PORT")
    RETRY_BACKOFF = ("BLOOMDUPE_RETRY_BACKOFF",)
    """Retries that wait, and slots that rest because they fail."""
    ROUNDS = ("BLOOMDUPE_START_REQUESTS",)
    SLOT_LIMITS = ("BLOOMDUPE_MAX_PAGES_PER_SLOT", "BLOOMDUPE_MAX_PENDING_PER_SLOT")


def refused_settings(features: Collection[Feature]) -> set[str]:
    """Return the settings that have no effect on an engine with these features."""
    return {name for one in Feature if one not in features for name in one.value}
