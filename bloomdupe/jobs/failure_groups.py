"""Failure groups: failed requests with the same cause, exception and slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bloomdupe.crawl.leases.failure import Failure

__all__ = ["FailureGroup", "grouped"]


class FailureGroup(NamedTuple):
    """Failed requests with the same cause, exception and slot."""

    requests: int
    reason: str
    status: int | None
    exception: str
    slot: str
    time: float
    """Unix time of the latest of these failures."""
    url: str
    """The URL of that request."""

    @property
    def cause(self) -> str:
        """The reason, with the status if there was a response."""
        return self.reason if self.status is None else f"{self.reason} {self.status}"


def grouped(failures: Iterable[Failure]) -> list[FailureGroup]:
    """Return the groups of failed requests, the largest first."""
    groups: dict[tuple[str, int | None, str, str], list[Failure]] = {}
    for one in failures:
        name = (one.reason, one.status, one.exception, one.slot)
        groups.setdefault(name, []).append(one)
    found = []
    for name, members in groups.items():
        latest = max(members, key=lambda one: one.time)
        found.append(FailureGroup(len(members), *name, latest.time, latest.url))
    return sorted(found, key=lambda group: -group.requests)
