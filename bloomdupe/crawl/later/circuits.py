"""Retries wait; a slot that fails again and again rests, then one request tries it.

The pattern is the circuit breaker of Michael Nygard, "Release It!", 2007, chapter 5. A
slot (host) with several failures in a row, without a success between, is
*open*: it rests. Then one request *probes* it. If that fails, the slot rests longer; if
it succeeds, the slot is *closed* again at once.

The waits of :mod:`bloomdupe.crawl.later.backoff` are different: there the server names
the time, and nothing is guessed.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.http import Response
from scrapy.utils.misc import load_object
from twisted.python.failure import Failure

from bloomdupe.crawl.later.clock import Clock
from bloomdupe.crawl.later.rests import RestLog
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.state.slot_state import SlotState
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.leases import Leases
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.inside_scrapy.engine import EngineAccess


MOST_FAILURES = 5
"""Failures in a row that open a slot. It is fewer if ``RETRY_TIMES`` is less, so that
the slot opens before a request can be given up.
"""

PATIENCE = 3
"""Probes that may fail after rests of the greatest length. Then the slot counts as
dead: it does not rest any more, and each of its requests gets the tries that Scrapy
allows. Otherwise a crawl with a dead host would never end.
"""

SERVER_AWAY = frozenset({429, 502, 503, 504, 522, 524})
"""Statuses that say that the server cannot answer any request now: RFC 9110, sections
15.6.3 to 15.6.5, RFC 6585, section 4, and Cloudflare's 522 and 524. Other statuses,
such as 500, may be a fault of the page alone.
"""

PROBING = 1.0
"""Seconds after which to ask again while a probe is in progress. Usually the end of the
probe comes first.
"""

MOST_KEPT = 1_000
"""Open slots in a checkpoint, those with the most rests. After a crash, the crawl has
to find the rest of them again.
"""
MOST_KNOWN = 10_000
"""Slots with failures in memory."""


@dataclass(frozen=True)
class GrowingWait:
    """Waits that grow by a factor up to a limit; half of each wait is random.

    This is *equal jitter* as in Marc Brooker, "Exponential Backoff And Jitter", AWS
    Architecture Blog, 2015: randomness keeps requests that have failed together from
    coming back together. His *full jitter* may wait for no time at all, and a server
    that has just failed would get all tries at once.
    """

    base: float
    """Seconds after the first failure, at most."""
    factor: float
    limit: float
    """Seconds, at most."""
    draw: Callable[[], float] = random.random
    """Returns a number from 0 to 1."""

    def longest(self, failures: int) -> float:
        """Return the longest wait after so many failures in a row, in seconds."""
        exponent = (failures - 1) * math.log(self.factor)
        if exponent >= math.log(self.limit / self.base):
            return self.limit  # the power might be too large for a float
        return self.base * math.exp(exponent)

    def seconds(self, failures: int) -> float:
        """Draw the wait after so many failures in a row."""
        return self.longest(failures) * (1 + self.draw()) / 2


class Circuit:
    """A slot that has failed."""

    __slots__ = ("dead", "failures", "probe", "reason", "rests", "until")

    def __init__(self) -> None:
        self.failures = 0
        """Failures in a row."""
        self.reason = ""
        """The last failure."""
        self.rests = 0
        """Rests in a row; 0 if the slot is closed."""
        self.until = 0.0
        """When the rest ends, in seconds of ``time.monotonic()``."""
        self.probe: Lease | None = None
        """The request in progress that tests whether the slot answers."""
        self.dead = False
        """Whether the slot counts as dead, see ``PATIENCE``."""

    @property
    def is_open(self) -> bool:
        """Whether it rests, or is probed."""
        return self.rests > 0 and not self.dead


def tries_of(request: Request) -> int:
    """Return how often a request was retried, as Scrapy counts it."""
    tries = request.meta.get("retry_times", 0)
    return tries if isinstance(tries, int) else 0


class Circuits(Participant, SlotState):
    """Lets slots rest; a closed slot has the engine's own wait.

    A failure is the same as for Scrapy's retry middleware: an error of
    ``RETRY_EXCEPTIONS``, or an answer with a status of ``RETRY_HTTP_CODES``.
    """

    def __init__(
        self,
        crawler: Crawler,
        engine: EngineAccess,
        growing: GrowingWait,
    ) -> None:
        settings = crawler.settings
        assert crawler.stats is not None  # noqa: S101 - the crawl is open
        self._stats = crawler.stats
        self._engine = engine
        self._growing = growing
        self._threshold = max(1, min(MOST_FAILURES, settings.getint("RETRY_TIMES")))
        self._codes = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self._errors = tuple(map(load_object, settings.getlist("RETRY_EXCEPTIONS")))
        self._circuits: dict[str, Circuit] = {}
        self._statuses: dict[int, int] = {}
        self._log = RestLog()
        self._clock = Clock(None)
        self.frontier: Frontier
        self.leases: Leases

    # When a slot is asked

    def wait(self, name: str, in_progress: int) -> float:
        """Return the seconds until a slot may have another request."""
        circuit = self._circuits.get(name)
        if circuit is not None and circuit.is_open:
            seconds = circuit.until - time.monotonic()
            if seconds > 0:
                return seconds
            if circuit.probe is not None:
                return PROBING
        return self._engine.wait(name, in_progress)

    # Results of requests

    def handed_out(self, lease: Lease) -> None:
        """Remember a request for an open slot as the probe."""
        circuit = self._circuits.get(lease.entry.queue.name)
        if circuit is not None and circuit.is_open:
            circuit.probe = lease

    def response_downloaded(self, response: Response, request: Request) -> None:
        """Keep the status of an answer, before middlewares can replace the answer."""
        if self.leases.of(request) is not None:
            self._statuses[id(request)] = response.status

    def answered(self, lease: Lease, result: object) -> None:
        """Update the circuit of the slot by the downloader's answer."""
        status = self._statuses.pop(id(lease.request), None)
        failed = self._is_failure(lease.request, result)
        slot = lease.entry.queue.name
        if failed:
            self._failed(slot, lease, status)
        elif status is not None:
            self._succeeded(slot)
        else:  # it came from a middleware, or was dropped by one
            self.ended(lease)

    def ended(self, lease: Lease) -> None:
        """End a probe, with or without an answer."""
        circuit = self._circuits.get(lease.entry.queue.name)
        if circuit is not None and circuit.probe is lease:
            circuit.probe = None
            self._ask_again(lease.entry.queue.name)

    def _is_failure(self, request: Request, result: object) -> bool:
        if isinstance(result, Request):
            return tries_of(result) > tries_of(request)  # or it is a redirect
        if isinstance(result, Response):
            return result.status in self._codes
        return isinstance(result, Failure) and isinstance(result.value, self._errors)

    def _succeeded(self, slot: str) -> None:
        circuit = self._circuits.pop(slot, None)
        if circuit is not None and circuit.rests:
            self._log.write(
                slot, f"answers again after {plural(circuit.rests, 'rest')}"
            )
            self._ask_again(slot)

    def _failed(self, slot: str, lease: Lease, status: int | None) -> None:
        circuit = self._circuits.get(slot)
        if circuit is None:
            self._make_room()
            circuit = self._circuits[slot] = Circuit()
        circuit.failures += 1
        circuit.reason = "no answer" if status is None else f"HTTP {status}"
        if circuit.probe is lease:
            circuit.probe = None
            self._rest(slot, circuit)
        elif not circuit.rests and circuit.failures >= self._threshold:
            self._rest(slot, circuit)
        away = status is None or status in SERVER_AWAY
        lease.try_counts = not (circuit.is_open and away)

    def _rest(self, slot: str, circuit: Circuit) -> None:
        growing = self._growing
        if (
            circuit.rests >= PATIENCE
            and growing.longest(circuit.rests - PATIENCE + 1) >= growing.limit
        ):
            circuit.dead = True
            self._log.write(
                slot, f"is taken for dead after {plural(circuit.rests, 'rest')}"
            )
            self._ask_again(slot)
            return
        circuit.rests += 1
        seconds = growing.seconds(circuit.rests)
        circuit.until = time.monotonic() + seconds
        self._stats.inc_value("bloomdupe/slot_rests")
        self._say_rest(slot, circuit)

    def _say_rest(self, slot: str, circuit: Circuit) -> None:
        times = plural(circuit.failures, "time")
        cause = f"has failed {times} in a row ({circuit.reason})"
        self._log.begins(slot, circuit.until, f"{cause} and rests")

    def resting(self) -> dict[str, float]:
        """Return the slots that rest, until times of ``time.monotonic()``."""
        now = time.monotonic()
        rested = ((s, c) for s, c in self._circuits.items() if c.is_open)
        return {slot: c.until for slot, c in rested if c.until > now}

    def _ask_again(self, slot: str) -> None:
        self.frontier.ask_again(slot)
        self._engine.wake()

    def _make_room(self) -> None:
        """Forget slots without pending requests, if there are very many slots."""
        if len(self._circuits) >= MOST_KNOWN:
            pending = self.frontier.pending_in
            kept = {n: c for n, c in self._circuits.items() if c.probe or pending(n)}
            newest = list(kept.items())[-MOST_KNOWN // 2 :]
            self._circuits = dict(newest)

    # Checkpoints

    def restore(self, stored: dict[str, list[Any]], clock: Clock) -> None:
        """Restore the circuits of the last checkpoint."""
        self._clock = clock
        for slot, values in stored.items():
            self.restore_slot(slot, values, clock)

    def prepare(self) -> Part:
        """Return the open slots for the next checkpoint.

        The record ``circuits`` has for each slot: failures in a row, rests in a row,
        the Unix time when the rest ends, whether the slot counts as dead, and the last
        failure.
        """
        rested = [(slot, c) for slot, c in self._circuits.items() if c.rests]
        if len(rested) > MOST_KEPT:
            rested = sorted(rested, key=lambda item: item[1].rests)[-MOST_KEPT:]
        circuits = {slot: self.stored_of(slot, self._clock) for slot, _ in rested}
        return Part(entries={"circuits": circuits} if circuits else {})

    # The state of a slot

    def stored_of(self, slot: str, clock: Clock) -> list[Any] | None:
        """See :meth:`SlotState.stored_of`: as in the record ``circuits``."""
        c = self._circuits.get(slot)
        if c is None or not c.rests:
            return None
        return [c.failures, c.rests, clock.at(c.until), c.dead, c.reason]

    def restore_slot(self, slot: str, stored: list[Any], clock: Clock) -> None:
        """See :meth:`SlotState.restore_slot`."""
        failures, rests, until, dead, reason = stored
        circuit = self._circuits[slot] = Circuit()
        circuit.failures, circuit.rests, circuit.dead = failures, rests, dead
        circuit.until = clock.until(until, self._growing.limit)
        circuit.reason = reason
        if circuit.is_open and circuit.until > time.monotonic():
            self._say_rest(slot, circuit)

    def until(self, slot: str) -> float:
        """See :meth:`SlotState.until`."""
        circuit = self._circuits.get(slot)
        return circuit.until if circuit is not None and circuit.rests else 0.0


def is_retry(request: Request, lease: Lease | None) -> bool:
    """Whether a request is a retry of the request of ``lease``.

    A retry has a higher retry count. A request with the same count was made with a copy
    of ``meta``, or is a redirect.
    """
    if not request.dont_filter:
        return False
    before = 0 if lease is None else tries_of(lease.request)
    return tries_of(request) > before


class Retries:
    """Recognises retries by ``meta["retry_times"]``, and delays them."""

    def __init__(
        self, crawler: Crawler, engine: EngineAccess, growing: GrowingWait
    ) -> None:
        assert crawler.stats is not None  # noqa: S101 - the crawl is open
        self._crawler = crawler
        self._stats = crawler.stats
        self._growing = growing
        self.circuits = Circuits(crawler, engine, growing)

    def attach(self, frontier: Frontier, leases: Leases) -> None:
        """Begin to watch the results of requests."""
        circuits = self.circuits
        circuits.frontier, circuits.leases = frontier, leases
        leases.handed_out.append(circuits.handed_out)
        leases.answered.append(circuits.answered)
        leases.ended.append(circuits.ended)
        self._crawler.signals.connect(
            circuits.response_downloaded, signals.response_downloaded
        )

    def let_wait(
        self,
        request: Request,
        lease: Lease | None,
        not_before: float | None,
        *,
        answer: bool,
    ) -> tuple[Request, float | None]:
        """Return a request and the Unix time before which it waits, if it is a retry.

        ``lease`` belongs to the request that led to it. ``answer`` says whether the
        request is the downloader's answer to that.
        """
        if not is_retry(request, lease):
            return request, not_before
        if answer and lease is not None and not lease.try_counts:
            # It waits in its slot until that answers again.
            self._stats.inc_value("bloomdupe/retries_not_counted")
            request = request.copy()
            request.meta["retry_times"] = tries_of(lease.request)
            return request, not_before
        due = time.time() + self._growing.seconds(tries_of(request))
        return request, due if not_before is None else max(due, not_before)
