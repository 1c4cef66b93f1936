"""Added: counts of requests that were added to a job by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
    taken_up: bool = False
    """Whether the running crawl has taken up any of them."""
    problems: Problems = field(default_factory=Problems)

    def count(self, answer: dict[str, Any], *, taken_up: bool) -> None:
        """Add the counts of an answer to a change.

        A store holds the answer of a running crawl, so it names no attribute here.
        """
        self.taken_in += answer.get("taken_in", 0)
        self.seen += answer.get("seen", 0)
        self.waited += answer.get("waited", 0)
        self.unseen += answer.get("unseen", 0)
        self.blocked += answer.get("blocked", 0)
        for url, why in answer.get("problems", ()):
            self.problems.add(url, why)
        self.taken_up = self.taken_up or taken_up
