"""Added: counts of requests that were added to a job by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from bloomdupe.jobs.lines import Problems


@dataclass
class Added:
    """Counts of requests by result."""

    taken_in: int = 0
    """Requests that are pending now."""
    seen: int = 0
    """Requests that were seen before, and so skipped."""
    waited: int = 0
    """Requests that were pending already, and so left as they are."""
    unseen: int = 0
    """Requests that were never seen, and so cannot be repeated."""
    blocked: int = 0
    """Requests that a rule of ``bloomdupe block`` keeps out."""
    handed_over: int = 0
    """Requests that the running crawl is to take in."""
    problems: Problems = field(default_factory=Problems)

    def count(self, name: str) -> None:
        """Count a request by the name of a field."""
        setattr(self, name, getattr(self, name) + 1)
