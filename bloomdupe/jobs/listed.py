"""The requests of a job as they are shown, and the selection of some of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.state.failures import stored_failures
from bloomdupe.errors import UnserializableError
from bloomdupe.foreign import check_packed
from bloomdupe.requests.layout import fields_of, url_of
from bloomdupe.settings import check_patterns

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from bloomdupe.crawl.state.failures import Failure
    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.store.snapshot import Snapshot

_SHOWN = {"url", "method", "priority", "callback"}
"""Fields of a request that a list shows."""

GONE = {"404", "410"}
"""Reasons of failures that a retry does not mend."""


@dataclass(frozen=True)
class Selection:
    """Selects the requests of a slot with URLs that match a pattern. None: any."""

    slot: str | None = None
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, slot: str | None, pattern: str | None) -> Selection:
        """Read a user's options; raises ``SettingError`` if they are bad."""
        given = [] if pattern is None else [pattern]
        return cls(slot, next(iter(check_patterns(given, "--pattern")), None))

    def has(self, slot: str, url: str) -> bool:
        """Whether a request is selected."""
        return self.slot in (None, slot) and (
            self.pattern is None or self.pattern.search(url) is not None
        )


class ListedRequest(NamedTuple):
    """A request that is pending or in flight."""

    slot: str
    method: str
    url: str
    priority: int
    callback: str | None
    not_before: float | None = None
    """Unix time before which it is not fetched."""
    problem: str | None = None
    """The reason why it cannot be read."""
    payload: bytes | None = None
    """The stored request, if it has more than that."""

    @classmethod
    def of(cls, one: PendingRequest | SentRequest) -> ListedRequest:
        """Return a request in the store, or on its way there, as it is listed."""
        try:
            check_packed(one.payload)
            fields = fields_of(one.payload)
            if not isinstance(priority := fields.get("priority", 0), int):
                raise UnserializableError(f"{priority!r} is no number")
        except ValueError as error:
            return cls(one.slot, "?", url_of(one.payload), 0, None, problem=str(error))
        callback = fields.get("callback", "parse")
        is_partial = isinstance(callback, list)
        if is_partial:
            callback = f"partial({callback[0] if callback else ''})"
        return cls(
            one.slot,
            str(fields.get("method", "GET")),
            fields["url"],
            priority,
            None if callback == 0 else str(callback),
            one.not_before,
            payload=one.payload if is_partial or fields.keys() - _SHOWN else None,
        )


class FoundUrl(NamedTuple):
    """The state of a URL."""

    url: str
    seen: bool
    pending: list[ListedRequest]
    """The pending requests for it."""
    failed: Failure | None
    """Its last failure, if it has not succeeded since."""


@dataclass(frozen=True)
class FailedRequests:
    """Failed requests."""

    requests: list[Failure]
    """Failed requests that were not retried since, latest first."""
    left: int = 0
    """Number of failed requests that were removed because there were too many."""

    @classmethod
    def of(
        cls,
        snapshots: Iterable[Snapshot],
        selects: Callable[[Failure], bool] = lambda _: True,
        left: int = 0,
    ) -> FailedRequests:
        """Read those of a job that a function selects."""
        stored = chain.from_iterable(map(stored_failures, snapshots))
        found = [one for _, one in stored if not one.waiting and selects(one)]
        return cls(sorted(found, key=lambda one: -one.time), left)

    @property
    def reasons(self) -> Counter[str]:
        """Count them by reason; each HTTP status is a reason."""
        return Counter(one.cause for one in self.requests)

    @property
    def slots(self) -> Counter[str]:
        """Count them by slot."""
        return Counter(one.slot for one in self.requests)

    @property
    def option(self) -> str:
        """The setting with which a run retries them; empty if all pages are gone."""
        options = sorted({one.option for one in self.requests} - GONE)
        return f"BLOOMDUPE_RETRY_FAILED={','.join(options)}" if options else ""

    @property
    def groups(self) -> list[tuple[Failure, int]]:
        """The last of those with the same words, exception and slot, and their number.

        The largest group is the first.
        """
        latest: dict[tuple[str, str, str], Failure] = {}
        names = [(one.in_words, one.exception, one.slot) for one in self.requests]
        for name, one in zip(names, self.requests, strict=True):
            latest.setdefault(name, one)
        return [(latest[name], count) for name, count in Counter(names).most_common()]
