"""SlotRules: whether a slot may have a request now, and if not, when and why.

A slot (host) backs off if its server asks for it with Retry-After, or if the user has
paused it. A slot with several failures in a row, without a success between, backs off,
too; then one request *probes* it. If that fails, the slot backs off longer; if it
succeeds, the slot has requests again at once. That is the circuit breaker of Michael
Nygard, "Release It!", 2007, chapter 5.

What is remembered of a slot is its :class:`bloomdupe.frontier.slot_state.SlotState`.
"""

from __future__ import annotations

import time
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from scrapy import Request, signals
from scrapy.http import Response
from scrapy.utils.misc import load_object
from twisted.python.failure import Failure

from bloomdupe.crawl.progress.pace import clock, plural
from bloomdupe.crawl.retries import tries_of
from bloomdupe.frontier.slot_state import PROBED, RETRY_AFTER, backoff_of
from bloomdupe.printable import logger_of
from bloomdupe.store.store import Part, Participant

if TYPE_CHECKING:
    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.in_flight.request import InFlightRequest
    from bloomdupe.crawl.state.rules import RulesInForce
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.slot_queue import SlotQueue
    from bloomdupe.frontier.slot_state import SlotState

logger = logger_of(__name__)

ASKING = (429, 503)
"""Statuses with which Retry-After says when the server will answer again: RFC 9110,
section 10.2.3, and RFC 6585, section 4.
"""
LONGEST_HOLD = 300.0
"""Seconds for which a slot is held back at most, whatever its server asks for."""

MOST_FAILURES = 5
"""Failures in a row after which a slot backs off. It is fewer if ``RETRY_TIMES`` is
less, so that the slot backs off before a request can be given up."""
PATIENCE = 3
"""Probes that may fail after backoffs of the greatest length. Then the slot is marked
down: it does not back off any more, and each of its requests gets the tries that Scrapy
allows. Otherwise a crawl with a host that is down would never end.
"""
SERVER_AWAY = frozenset({429, 502, 503, 504, 522, 524})
"""Statuses that say that the server cannot answer any request now: RFC 9110, sections
15.6.3 to 15.6.5, RFC 6585, section 4, and Cloudflare's 522 and 524. Other statuses,
such as 500, may be a fault of the page alone.
"""

MOST_LOGGED = 100
"""Lines in the log of a run."""


class SlotRules(Participant):
    """Decides about the slots of a frontier.

    A failure is the same as for Scrapy's retry middleware: an error of
    ``RETRY_EXCEPTIONS``, or an answer with a status of ``RETRY_HTTP_CODES``. Without
    ``growing`` waits, no slot backs off because of failures.

    ``BLOOMDUPE_MAX_PENDING_PER_SLOT`` bounds the pending requests of a slot,
    ``BLOOMDUPE_MAX_PAGES_PER_SLOT`` the requests ever accepted, over all runs of the
    job. A dropped request is not marked as seen: a page that links to it later yields
    it again, and it is accepted if there is room then. The limits do not apply to start
    requests, to requests with ``dont_filter`` and those that a user adds, nor to
    retries and redirects of accepted requests.
    """

    def __init__(self, session: Session) -> None:
        settings, job = session.crawler.settings, session.settings
        growing = session.growing
        self._signals = session.crawler.signals
        self._stats = session.stats
        self._engine = session.access
        self._registry = session.registry
        self._growing = growing
        self.longest_backoff = max(LONGEST_HOLD, growing.limit if growing else 0.0)
        """Seconds that a slot backs off, at most."""
        self._threshold = max(1, min(MOST_FAILURES, settings.getint("RETRY_TIMES")))
        self._codes = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self._errors = tuple(map(load_object, settings.getlist("RETRY_EXCEPTIONS")))
        self._logged = 0
        self._most_pages = job.max_pages_per_slot
        self._most_pending = job.max_pending_per_slot
        self.limited = (self._most_pages, self._most_pending) != (None, None)
        """Whether there is any limit."""
        self._full: set[tuple[str, str]] = set()
        self._frontier: Frontier
        self._rules: RulesInForce

    def attach(self, frontier: Frontier, rules: RulesInForce) -> None:
        """Go on with the slots of a frontier, and begin to watch responses.

        Slots that the ``rules`` pause get no requests.
        """
        self._frontier, self._rules = frontier, rules
        for slot in frontier.queues():
            if slot.state is not None:
                self.say(slot.name, slot.state)
        self._signals.connect(self.response_downloaded, signals.response_downloaded)

    def delay_of(self, name: str) -> float | None:
        """Return the delay that a slot had in the last run, if that is known."""
        state = self._frontier.slots_of(name).state_of(name)
        return None if state is None else state.delay or None

    # The decision

    def wait(self, slot: SlotQueue, in_flight: int) -> float:
        """Return the seconds until a slot may have another request."""
        state, name = slot.state, slot.name
        paused = name in self._rules.now.paused
        if state is not None or paused:
            now, delay = time.time(), 0.0
            if state is not None and state.last:
                delay = self._engine.delay_of(name)
            backoff = backoff_of(state, now, paused=paused, delay=delay)
            if backoff is not None:
                return backoff.until - now
        return self._engine.wait(name, in_flight, slot.handed_out)

    def backing_off(self) -> dict[str, float]:
        """Return the slots that back off, until Unix times."""
        now, found, paused = time.time(), {}, self._rules.now.paused
        for slot in self._frontier.queues():
            backoff = backoff_of(slot.state, now, paused=slot.name in paused)
            if slot.pending and backoff is not None and backoff.reason != PROBED:
                found[slot.name] = backoff.until
        return found

    # Limits

    def room_for(self, slot: str, *, is_marked: bool = False) -> bool:
        """Whether the slot may have another request; counts and logs a refusal.

        One that is marked as seen already may wait: no later page can yield it again.
        """
        frontier, pages, pending = self._frontier, self._most_pages, self._most_pending
        state = None if pages is None else frontier.slots_of(slot).state_of(slot)
        if pages is not None and state is not None and state.pages >= pages:
            stat = "bloomdupe/dropped_page_limit"
            limit = f"BLOOMDUPE_MAX_PAGES_PER_SLOT = {pages}"
        elif pending and not is_marked and frontier.pending_in(slot) >= pending:
            stat = "bloomdupe/dropped_pending_limit"
            limit = f"BLOOMDUPE_MAX_PENDING_PER_SLOT = {pending}"
        else:
            return True
        self._stats.inc_value(stat)
        if (stat, slot) not in self._full and len(self._full) < MOST_LOGGED:
            self._full.add((stat, slot))
            logger.warning(
                "Slot %(slot)r has reached %(limit)s: new requests of it are dropped,"
                " and counted in %(stat)s",
                {"slot": slot, "limit": limit, "stat": stat},
            )
        return False

    def took(self, slot: str) -> None:
        """Count an accepted request."""
        if self._most_pages is not None:
            self._frontier.slots_of(slot).state(slot).pages += 1

    # What it depends on

    def response_downloaded(self, response: Response, request: Request) -> None:
        """Look at a response before middlewares can replace it (a signal)."""
        in_flight = self._registry.of(request)
        if in_flight is not None:
            in_flight.status = response.status
        if response.status not in ASKING:
            return
        value = response.headers.get("Retry-After")
        seconds = None if value is None else seconds_of(value)
        if seconds:
            now, name = time.time(), self._engine.slot_of(request)
            state = self._frontier.slots_of(name).state(name)
            held, until = state.held, now + min(seconds, LONGEST_HOLD)
            state.held = max(until, held)
            if held <= now:
                self.say(name, state)

    def handed_out(self, in_flight: InFlightRequest) -> None:
        """Remember a request for a slot that has backed off as the probe."""
        state = in_flight.entry.queue.state
        if self._growing is not None and state is not None and state.is_open:
            state.probe = in_flight

    def answered(self, in_flight: InFlightRequest, result: object) -> None:
        """Update the state of the slot by the downloader's answer."""
        if self._growing is None:
            return
        if self._is_failure(in_flight.request, result):
            self._failed(in_flight)
        elif in_flight.status is not None:
            self._succeeded(in_flight.entry.queue)
        else:  # it came from a middleware, or was dropped by one
            self.ended(in_flight)

    def ended(self, in_flight: InFlightRequest) -> None:
        """End a probe, with or without an answer."""
        slot = in_flight.entry.queue
        if slot.state is not None and slot.state.probe is in_flight:
            slot.state.probe = None
            self._ask_again(slot.name)

    def _is_failure(self, request: Request, result: object) -> bool:
        if isinstance(result, Request):
            return tries_of(result) > tries_of(request)  # or it is a redirect
        if isinstance(result, Response):
            return result.status in self._codes
        return isinstance(result, Failure) and isinstance(result.value, self._errors)

    def _succeeded(self, slot: SlotQueue) -> None:
        if slot.state is None or not slot.state.failures:
            return
        state = self._frontier.slots_of(slot.name).state(slot.name)
        backoffs, state.backoffs, state.failures = state.backoffs, 0, 0
        state.down, state.until, state.probe = False, 0.0, None
        if backoffs:
            self._log(slot.name, f"answers again after {plural(backoffs, 'backoff')}")
            self._ask_again(slot.name)

    def _failed(self, in_flight: InFlightRequest) -> None:
        name, status = in_flight.entry.queue.name, in_flight.status
        state = self._frontier.slots_of(name).state(name)
        state.failures += 1
        state.reason = "no answer" if status is None else f"HTTP {status}"
        if state.probe is in_flight:
            state.probe = None
            self._back_off(name, state)
        elif not state.backoffs and state.failures >= self._threshold:
            self._back_off(name, state)
        away = status is None or status in SERVER_AWAY
        in_flight.try_counts = not (state.is_open and away)

    def _back_off(self, name: str, state: SlotState) -> None:
        growing = self._growing
        assert growing is not None  # noqa: S101 - or nothing is watched
        if (
            state.backoffs >= PATIENCE
            and growing.longest(state.backoffs - PATIENCE + 1) >= growing.limit
        ):
            state.down = True
            self._log(name, f"is marked down after {plural(state.backoffs, 'backoff')}")
            self._ask_again(name)
            return
        state.backoffs += 1
        state.until = time.time() + growing.seconds(state.backoffs)
        self._stats.inc_value("bloomdupe/slot_backoffs")
        if state.until > state.held:  # the longer wait of a header was logged already
            self.say(name, state)

    def _ask_again(self, name: str) -> None:
        self._frontier.ask_again(name)
        self._engine.wake()

    # Words

    def say(self, name: str, state: SlotState) -> None:
        """Log a backoff, if there is any."""
        now = time.time()
        backoff = backoff_of(state, now)
        if backoff is None:
            return
        cause = "backs off, as its Retry-After asks,"
        if backoff.reason != RETRY_AFTER:
            times = plural(state.failures, "time")
            cause = f"has failed {times} in a row ({backoff.reason}) and backs off"
        self._log(name, f"{cause} until {clock(backoff.until, now)}")

    def _log(self, name: str, news: str) -> None:
        """Log news of a slot: the rest of a sentence that begins with it."""
        if self._logged < MOST_LOGGED:
            self._logged += 1
            logger.info("Slot %(slot)r %(news)s", {"slot": name, "news": news})

    # Checkpoints

    def prepare(self) -> Part:
        """Keep the delays that AutoThrottle has set; the frontier writes them."""
        if self._engine.throttled:
            for name, delay in self._engine.delays().items():
                slots = self._frontier.slots_of(name)
                state = slots.state_of(name)
                if state is None or state.delay != delay:
                    slots.state(name).delay = delay
        return Part()


def seconds_of(value: bytes) -> float | None:
    """Read a Retry-After header: seconds from now, or None if it is invalid."""
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=timezone.utc)
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, OverflowError):  # of the date, or of its time zone
        return None
