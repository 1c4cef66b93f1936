"""F22: real crawls that several workers share, disturbed again and again.

The judges are stock Scrapy, which does the same undisturbed; the log of the site; and
Redis' own clock, which says when a page was done.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

sys.path.append(str(Path(__file__).parents[1]))  # beside pytest, too

from everyday_crew import EverydayCrew, Hand
from gated_site import GatedSite, Site
from nursery import Nursery
from one_redis import OneCluster, OneRedis
from trial import OK, Fault, Outcome, crashed, lost, silently_wrong

from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Callable

    from gated_site import Visit
    from typing_extensions import Self

SIZE = 180
"""Pages with a number; some lead to others, without one."""
WORKERS = 4
LEASE = 0.6
"""Seconds."""
STEP = 16
"""Requests from one fault to the next, in the mean."""
PAUSE = 0.3
"""Seconds, in which a crawl that waits for a lease gets no further."""
CLOCK = 0.01
"""Seconds: what is called at once by two clocks."""
UNDER_WAY = 40
"""Requests that a worker has at hand, which it may ask for after its lease."""
MANY = {
    **dict.fromkeys(("kill", "interrupt", "interrupt twice", "collect"), 0),
    "part": 1,
    "stop": 2,
}
"""Workers that a fault deprives of their leases, and that go on; else all of them."""
FEEDS = ("items.jsonl", "failed.jsonl")


class Place(Protocol):
    """Where the crawl lies: a Redis, or a Cluster of them; used with ``with``."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def url(self, name: str, worker: str = "") -> str:
        """Return the URL of a crawl, for a worker."""

    def part(self, worker: str, seconds: float) -> None:
        """Let a worker not reach it for so long."""

    def wait_until_ready(self) -> None:
        """Wait until who comes now is answered."""

    def disturb(self, what: str, seconds: float) -> None:
        """Let something happen to it, which takes so many seconds or more."""


class SharedCrawls(Fault):
    """A crawl of real workers, disturbed again and again, that runs to its end."""

    number = "F22"
    name = "real workers on Redis killed, stopped, interrupted; Redis killed"
    trials = 12
    faults: ClassVar[int] = 15
    """Of a case; some do not take place."""
    kinds: ClassVar[tuple[str, ...]] = (
        *("kill", "kill", "stop", "stop", "interrupt", "interrupt twice"),
        *("part", "collect", "restart", "promote", "stall", "full", "cut off"),
    )

    def place(self, folder: Path) -> Place:
        return OneRedis(folder)

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def quick(self, folder: Path, seed: int) -> list[Outcome]:
        return self._crawl(folder, seed, faults=5)

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return self._crawl(folder, seed, faults=self.faults)

    def control(self, folder: Path, seed: int) -> list[Outcome]:
        """Without fencing; and settled before the links are offered."""
        found = []
        for without, kinds in (("fence", ("stop", "part")), ("order", ("kill",))):
            place = folder / without
            place.mkdir()
            outcomes = self._crawl(place, seed, 6, kinds, without)
            if set(outcomes) <= {OK}:
                return [OK]
            found += outcomes
        return found

    def _crawl(
        self,
        folder: Path,
        seed: int,
        faults: int,
        kinds: tuple[str, ...] | None = None,
        without: str = "",
    ) -> list[Outcome]:
        with (
            GatedSite(Site(seed, SIZE), folder / "visits") as site,
            self.place(folder) as place,
            Nursery() as nursery,
        ):
            crew = EverydayCrew(nursery, folder, site.base)
            trial = Disturbed(folder, site, place, crew, random.Random(seed), without)
            try:
                trial.run(faults, kinds or self.kinds)
                outcome = trial.judge()
            except TimeoutError as error:
                outcome = crashed(f"hangs: {error}")
            for hand in crew.alive:
                crew.kill(hand)
        happened = sum(trial.happened.values())
        (folder / "faults").write_text(f"{dict(trial.happened)}\n")
        # One verdict for all, and all that went before were faults of the same crawl.
        return [OK] * (happened - 1) + [outcome]


class ClusterCrawls(SharedCrawls):
    """The same on a Redis Cluster of three, of which one is killed at a time."""

    name = "real workers on a Redis Cluster killed, stopped; a node killed"
    trials = 6
    faults = 8
    kinds = ("kill", "stop", "collect", "restart", "restart", "cut off", "stall")

    def place(self, folder: Path) -> Place:
        return OneCluster(folder)

    def control(self, folder: Path, seed: int) -> list[Outcome]:
        """Without fencing; what :class:`SharedCrawls` shows needs no Cluster."""
        return self._crawl(folder, seed, 4, ("stop",), "fence")


class Disturbed:
    """A crawl, what happens to it, and what comes of it."""

    def __init__(
        self,
        folder: Path,
        site: GatedSite,
        place: Place,
        crew: EverydayCrew,
        rng: random.Random,
        without: str,
    ) -> None:
        self._folder = folder
        self._site = site
        self._place = place
        self._crew = crew
        self._rng = rng
        self._without = without
        self._url = place.url("crawl")
        self._allowed = 0
        self._deletes = rng.random() < 0.5
        self.happened = Counter[str]()
        """Faults that took place."""
        self._ended: list[tuple[Hand, str]] = []

    def run(self, faults: int, kinds: tuple[str, ...]) -> None:
        """Let stock Scrapy do it, and then disturb the crew until all is done."""
        self._site.allow()
        self._stock = self._crew.stock()
        self._asked = Counter(visit.what for visit in self._site.visits)
        self._shut()
        for _ in range(faults):
            if not self._hire(self._rng.randint(2, WORKERS)):
                break
            self._go_on()
            kind = self._rng.choice(kinds)
            if self._crew.at_work:
                self._disturb(kind)
        self._site.allow()
        self._hire(1)
        crew = self._crew
        crew.wait_until(lambda: not crew.alive, "the workers do not end")
        if not self._finished():
            # Who has the rest was stopped for good.
            self._hire(1)
            crew.wait_until(lambda: not crew.alive, "the last worker does not end")
        self._collect(again=False)
        crew.wait_until(
            lambda: crew.collectors[-1].status is not None, "bloomdupe collect"
        )
        self._count_ends()

    def _shut(self) -> None:
        self._allowed = self._site.count
        self._site.allow(self._allowed)

    def _hire(self, count: int) -> bool:
        """Have so many workers at least; False if the crawl has ended."""
        hands = self._crew.hands
        if any(hand.status == 0 and hand.reason == "finished" for hand in hands):
            return bool(self._crew.at_work)
        for _ in range(count - len(self._crew.at_work)):
            self._place.wait_until_ready()
            name = f"worker{len(self._crew.hands)}"
            url = self._place.url("crawl", name)
            self._crew.hire(name, url, LEASE, self._without)
        return True

    def _go_on(self) -> None:
        """Let the crawl go on for a while."""
        begun, rng = time.monotonic(), self._rng
        self._allow(rng.randrange(2, 2 * STEP))
        crew = self._crew
        crew.wait_until(
            lambda: (
                not crew.at_work
                or self._site.count >= self._allowed
                or (
                    any(hand.joined for hand in crew.at_work)
                    and time.monotonic() > begun + PAUSE
                )
            ),
            "the crawl does not go on",
        )
        time.sleep(rng.choice([0, 0, 0.02, 0.1]))

    def _allow(self, more: int) -> None:
        self._allowed = max(self._allowed, self._site.count) + more
        self._site.allow(self._allowed)

    # Faults

    def _disturb(self, what: str) -> None:
        rng, crew = self._rng, self._crew
        victim = rng.choice(crew.at_work)
        # In some, the site answers meanwhile; else what is under way stays that.
        self._allow(rng.choice([0, STEP, 3 * STEP]))
        if what == "kill":
            crew.kill(victim)
            self._ended.append((victim, what))
        elif what in {"interrupt", "interrupt twice"}:
            self._joined([victim])
            victim.stopped_by = what
            crew.send(victim, signal.SIGINT)
            if what == "interrupt twice":
                time.sleep(0.05)
                crew.send(victim, signal.SIGINT)
            self._ended.append((victim, what))
        elif what == "collect":
            self._collect(again=True)
        elif what == "stop":
            self._stop(victim)
        elif what == "part":
            self._joined([victim])
            self._place.part(victim.folder.name, rng.uniform(1.1, 2.5) * LEASE)
            self.happened[what] += victim in crew.at_work
        else:
            self._joined(crew.at_work)
            self._place.disturb(what, rng.uniform(0, 2 * LEASE))
            self.happened[what] += bool(crew.at_work)

    def _joined(self, hands: list[Hand]) -> None:
        self._crew.wait_until(
            lambda: all(hand.joined for hand in hands), "a worker does not join"
        )

    def _stop(self, victim: Hand) -> None:
        """Stop a worker, or some, for longer than the lease."""
        rng, crew = self._rng, self._crew
        victims = {victim, rng.choice(crew.at_work)}
        for one in victims:
            crew.send(one, signal.SIGSTOP)
        time.sleep(rng.uniform(1.1, 2.5) * LEASE)
        for one in victims:
            crew.send(one, signal.SIGCONT)
        # A process that had ended before cannot be stopped.
        self.happened["stop"] += any(one in crew.at_work for one in victims)

    def _collect(self, *, again: bool) -> None:
        """Kill who collects, and let the next one begin."""
        crew = self._crew
        self._joined(crew.at_work)
        options = ["--delete"] if self._deletes else []
        if crew.collectors:
            last = crew.collectors[-1]
            crew.look()
            crew.kill(last)
            self._ended.append((last, "collect"))
        options += ["--follow"] if again else []
        self._place.wait_until_ready()
        crew.collect(self._url, self._folder / "collected", *options)

    def _count_ends(self) -> None:
        for hand, what in self._ended:
            if what in {"kill", "collect"}:
                self.happened[what] += hand.status == -signal.SIGKILL
            else:
                said = "Received SIGINT" in hand.log and hand.reason != "finished"
                self.happened[what] += said

    # The judge

    def _finished(self) -> bool:
        with SharedFrontier.open(self._url) as frontier:
            return frontier.finished

    def judge(self) -> Outcome:
        """Hold what came of it against what stock Scrapy has done."""
        crew = self._crew
        complaints = [hand.complaint() for hand in crew.hands]
        last = crew.collectors[-1]
        if last.status:
            complaints.append(f"collect ended with {last.status}: {last.log[-200:]}")
        if any(complaints):
            return crashed("; ".join(filter(None, complaints)))
        if not self._finished():
            return lost("something waits, though all workers have ended")
        visits = [v for v in self._site.visits if v.by.startswith("worker")]
        asked = Counter(visit.what for visit in visits)
        if never := set(self._asked) - set(asked):
            return lost(f"never asked for: {sorted(never)[:9]}")
        if strange := set(asked) - set(self._asked):
            return silently_wrong(f"asked for: {sorted(strange)[:9]}")
        if not sum(self.happened.values()) and asked != self._asked:
            return silently_wrong(f"asked for too often: {asked - self._asked}")
        expected = Counter(lines_of(self._stock))
        found = {"collect": Counter(lines_of(self._folder / "collected"))}
        done = {}
        if not self._deletes:
            with SharedFrontier.open(self._url) as frontier:
                outputs = [(o.line.decode(), o.number) for o in frontier.outputs()]
            found["Redis"] = Counter(line for line, _ in outputs)
            done = {line: int(n.split(b"-")[0]) / 1000 for line, n in outputs}
        for where, lines in found.items():
            if gone := expected - lines:
                return lost(f"{gone.total()} items, by {where}: {min(gone)[:70]}")
            if surplus := lines - expected:
                return silently_wrong(
                    f"{surplus.total()} items too many, by {where}: {min(surplus)[:70]}"
                )
        return self._done_again(expected, done, visits)

    def _done_again(
        self, expected: Counter[str], done: dict[str, float], visits: list[Visit]
    ) -> Outcome:
        """Look for pages that were asked for after they were done.

        Only a worker that has lost its lease, and does not know it, may do that.
        """
        times = {}
        for line, moment in done.items():
            what = line.split('"')[3]
            if expected[line] == 1 and self._asked[what]:
                times[what] = max(moment, times.get(what, 0))
        again = [v for v in visits if v.time > times.get(v.what, v.time) + CLOCK]
        cut_off = sum(n * MANY.get(what, WORKERS) for what, n in self.happened.items())
        if len(again) > cut_off * UNDER_WAY:
            return silently_wrong(f"done again: {again[:5]}")
        (self._folder / "again").write_text(
            f"{len(again)} of {len(times)}, {len(visits) - self._asked.total()} more visits, {cut_off}\n"
        )
        return OK


def lines_of(folder: Path) -> list[str]:
    """Return the lines of all feeds, with their numbers."""
    return [
        f"{number} {line}\n"
        for number, name in enumerate(FEEDS)
        if (folder / name).exists()
        for line in (folder / name).read_text().splitlines()
    ]
