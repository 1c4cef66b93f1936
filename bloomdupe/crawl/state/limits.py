"""SlotLimits: bounds on the requests of a slot, against endless link traps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.settings import JobSettings

PAGE, PENDING = "page", "pending"
"""The kinds of limits."""
SETTINGS = {
    PAGE: "BLOOMDUPE_MAX_PAGES_PER_SLOT",
    PENDING: "BLOOMDUPE_MAX_PENDING_PER_SLOT",
}

logger = logger_of(__name__)

MOST_LOGGED = 100
"""Slots that are named in the log: a site may have a million subdomains."""


class SlotLimits:
    """Drops new requests of a slot (host) that has reached a limit.

    ``BLOOMDUPE_MAX_PENDING_PER_SLOT`` bounds the pending requests of a slot,
    ``BLOOMDUPE_MAX_PAGES_PER_SLOT`` the requests ever accepted, over all runs of the
    job. A dropped request is not marked as seen: a page that links to it later offers
    it again, and it is accepted if there is room then.

    The limits do not apply to requests with ``dont_filter``, such as start requests,
    nor to retries and redirects of accepted requests.

    The number of pages of each slot is kept with its state, if it is bounded.
    """

    def __init__(
        self, settings: JobSettings, frontier: Frontier, stats: StatsCollector
    ) -> None:
        pages, pending = settings.max_pages_per_slot, settings.max_pending_per_slot
        self.of = {PAGE: pages, PENDING: pending}
        """The limits; None: there is none of this kind."""
        self.on = pages is not None or pending is not None
        """Whether there is any limit."""
        self._frontier = frontier
        self._stats = stats
        self._logged: set[tuple[str, str]] = set()

    def room_for(self, slot: str) -> bool:
        """Whether the slot may have another request; counts and logs a refusal."""
        frontier, pages, pending = self._frontier, self.of[PAGE], self.of[PENDING]
        if pages is not None and frontier.slots.state(slot).pages >= pages:
            self.refuse(PAGE, slot)
        elif pending is not None and frontier.pending_in(slot) >= pending:
            self.refuse(PENDING, slot)
        else:
            return True
        return False

    def took(self, slot: str) -> None:
        """Count an accepted request."""
        if self.of[PAGE] is not None:
            self._frontier.slots.state(slot).pages += 1
            self._frontier.slots.touch(slot)

    def refuse(self, kind: str, slot: str) -> None:
        """Count and log a request that is dropped because of a limit."""
        stat = f"bloomdupe/dropped_{kind}_limit"
        self._stats.inc_value(stat)
        if (kind, slot) not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add((kind, slot))
            logger.warning(
                "Slot %(slot)r has reached %(setting)s = %(limit)d: new requests of it"
                " are dropped, and counted in %(stat)s",
                {
                    "slot": slot,
                    "setting": SETTINGS[kind],
                    "limit": self.of[kind],
                    "stat": stat,
                },
            )
