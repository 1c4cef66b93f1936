"""DisturbedCrawl: a crawl of real workers, and all that happens to it."""

from __future__ import annotations

import signal
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from everyday_crew import EverydayCrew, Hand
    from gated_site import GatedSite
    from redis_places import Place

WORKERS = 4
LEASE = 0.6
"""Seconds."""
STEP = 16
"""Requests from one fault to the next, about."""
PAUSE = 0.3
"""Seconds, in which a crawl that waits for a lease gets no further."""
FLUSH = 0.05
"""Seconds between two times Ctrl-C."""


class DisturbedCrawl:
    """A crawl of workers that come and go, until all is done.

    ``without`` names what is taken out of them (``taken_out.py``).
    """

    def __init__(
        self,
        folder: Path,
        site: GatedSite,
        place: Place,
        crew: EverydayCrew,
        rng: Random,
        without: str = "",
    ) -> None:
        self.site = site
        self.crew = crew
        self.url = place.url("crawl")
        self.collected = folder / "collected"
        self._place = place
        self._rng = rng
        self._without = without
        self._allowed = 0
        self.deletes = rng.random() < 0.5
        """Whether what was collected is deleted from Redis."""
        self.happened = Counter[str]()
        """Faults that took place."""
        self._ended: list[tuple[Hand, str]] = []
        self._faults: dict[str, Callable[[Hand], None]] = {
            "collect": lambda _: self._collect("--follow"),
            "interrupt": partial(self._interrupt, times=1),
            "interrupt twice": partial(self._interrupt, times=2),
            "kill": self._kill,
            "part": self._part,
            "stop": self._stop,
        }

    def run(self, faults: int, kinds: tuple[str, ...]) -> None:
        """Let stock Scrapy do it, and then disturb the crew until all is done."""
        site, crew, rng = self.site, self.crew, self._rng
        site.allow()
        self.stock = crew.stock()
        self._allowed = site.count
        site.allow(self._allowed)
        for _ in range(faults):
            if not self._hire(rng.randint(2, WORKERS)):
                break
            self._go_on()
            what = rng.choice(kinds)
            if crew.at_work:
                self._disturb(what)
        site.allow()
        self._hire(1)
        crew.wait_until(lambda: not crew.alive, "the workers do not end")
        self._collect()
        last = crew.collectors[-1]
        crew.wait_until(lambda: last.status is not None, "bloomdupe collect")
        self.asked = site.count
        self._hire_one()
        crew.wait_until(lambda: not crew.alive, "a finished crawl does not end")
        self._count_ends()

    def _hire(self, count: int) -> bool:
        """Have so many workers at least; False if the crawl has ended."""
        crew = self.crew
        if any(hand.status == 0 and hand.reason == "finished" for hand in crew.hands):
            return bool(crew.at_work)
        for _ in range(count - len(crew.at_work)):
            self._hire_one()
        return True

    def _hire_one(self) -> None:
        self._place.wait_until_ready()
        name = f"worker{len(self.crew.hands)}"
        self.crew.hire(name, self._place.url("crawl", name), LEASE, self._without)

    def _go_on(self) -> None:
        """Let the crawl go on for a while."""
        begun, crew = time.monotonic(), self.crew
        self._allow(self._rng.randrange(2, 2 * STEP))

        def far_enough() -> bool:
            if not crew.at_work or self.site.count >= self._allowed:
                return True
            late = time.monotonic() > begun + PAUSE
            return late and any(hand.joined for hand in crew.at_work)

        crew.wait_until(far_enough, "the crawl does not go on")
        time.sleep(self._rng.choice([0, 0, 0.02, 0.1]))

    def _allow(self, more: int) -> None:
        self._allowed = max(self._allowed, self.site.count) + more
        self.site.allow(self._allowed)

    # Faults

    def _disturb(self, what: str) -> None:
        victim = self._rng.choice(self.crew.at_work)
        # In some, the site answers meanwhile; else what is under way stays that.
        self._allow(self._rng.choice([0, STEP, 3 * STEP]))
        if what in self._faults:
            self._faults[what](victim)
            return
        self._wait_for(self.crew.at_work)
        self._place.disturb(what, self._rng.uniform(0, 2 * LEASE))
        self.happened[what] += bool(self.crew.at_work)

    def _wait_for(self, hands: list[Hand]) -> None:
        """Wait until they have joined: who comes while Redis is away is refused."""
        self.crew.wait_until(
            lambda: all(hand.joined for hand in hands), "a worker does not join"
        )

    def _longer(self) -> float:
        """Return some seconds, longer than the lease."""
        return self._rng.uniform(1.1, 2.5) * LEASE

    def _kill(self, victim: Hand) -> None:
        self.crew.kill(victim)
        self._ended.append((victim, "kill"))

    def _interrupt(self, victim: Hand, times: int) -> None:
        """Press Ctrl-C, once or twice; it ends while others go on."""
        self._wait_for([victim])
        victim.stopped_by = "interrupt" if times == 1 else "interrupt twice"
        self._ended.append((victim, victim.stopped_by))
        for _ in range(times):
            self.crew.send(victim, signal.SIGINT)
            time.sleep(FLUSH)

    def _part(self, victim: Hand) -> None:
        self._wait_for([victim])
        self._place.part(victim.folder.name, self._longer())
        self.happened["part"] += victim in self.crew.at_work

    def _stop(self, victim: Hand) -> None:
        """Stop a worker, or two, and let them go on."""
        crew = self.crew
        victims = {victim, self._rng.choice(crew.at_work)}
        for one in victims:
            crew.send(one, signal.SIGSTOP)
        time.sleep(self._longer())
        for one in victims:
            crew.send(one, signal.SIGCONT)
        # A process that had ended before cannot be stopped.
        self.happened["stop"] += any(one in crew.at_work for one in victims)

    def _collect(self, *options: str) -> None:
        """Kill who collects, if anybody does, and let the next one begin."""
        crew = self.crew
        self._wait_for(crew.at_work)
        if crew.collectors:
            crew.look()
            crew.kill(crew.collectors[-1])
            self._ended.append((crew.collectors[-1], "collect"))
        if self.deletes:
            options = ("--delete", *options)
        self._place.wait_until_ready()
        crew.collect(self.url, self.collected, *options)

    def _count_ends(self) -> None:
        for hand, what in self._ended:
            if what in {"kill", "collect"}:
                self.happened[what] += hand.status == -signal.SIGKILL
            else:
                said = "Received SIGINT" in hand.log and hand.reason != "finished"
                self.happened[what] += said
