"""``python -m tests.crash.soak``: fault trials, as many as one likes.

Prints the table of counts: "0 in N trials" means at most 3/N with 95 % confidence.
A case that fails is kept in ``--keep``, with the command that repeats it.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "idioms"))
sys.path.append(str(Path(__file__).parents[2]))

from child import Child
from damage import Damage
from full_disk import FullDisk
from generated_spiders import OnDisk, OnRedis
from hostile_sites import HostileSites
from models import Models
from power_cuts import CreationCuts, PowerCuts
from refusals import Refusals
from shared_crawls import ReturnedCrawls, SharedCrawls
from shared_kills import SharedKills
from stop_points import SharedIdioms, StopPoints
from support.forks import forks
from support.scratch import use_memory
from syscalls import IOErrors, SystemCalls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trial import Fault, Outcome

EVERY_FAULT: tuple[Fault, ...] = (
    SystemCalls(),
    StopPoints(),
    PowerCuts(),
    CreationCuts(),
    IOErrors(),
    FullDisk(),
    Damage(),
    Refusals(),
    Models(),
    HostileSites(),
    SharedKills(),
    SharedCrawls(),
    ReturnedCrawls(),
    SharedIdioms(),
    OnDisk(),
    OnRedis(),
)
"""In the order of the fault plan."""
SECONDS_A_CASE = 1800.0
"""After which a case counts as hung."""
VERDICTS = ("lost", "silently wrong", "crashed")
MISSED = "NOT CAUGHT"
JOBS = 2 * (os.cpu_count() or 1)
"""Cases at a time: most of a trial is waiting."""


@dataclass(eq=False)
class Tally:
    """The results of the trials of one class."""

    fault: Fault
    skipped: str | None
    """What this machine lacks."""
    verdicts: Counter[str] = field(default_factory=Counter)
    control: str = "not run"

    @property
    def trials(self) -> int:
        return self.verdicts.total()

    @property
    def failed(self) -> bool:
        if self.skipped is not None:
            excused = self.fault.excusable or not os.environ.get("BLOOMDUPE_TEST_ALL")
            return not excused
        return self.trials > self.verdicts["ok"] or self.control == MISSED

    def row(self) -> list[str]:
        head = [self.fault.number, self.fault.name]
        if self.skipped is not None:
            return [*head, f"skipped: {self.skipped}", "", "", "", "", ""]
        bound = f"{3 / self.trials:.2g}" if self.trials else "-"
        counts = [f"{self.verdicts[verdict]:,}" for verdict in VERDICTS]
        return [*head, f"{self.trials:,}", *counts, bound, self.control]


class Case:
    """A running case, in a process and a folder of its own."""

    def __init__(self, tally: Tally, seed: int | None) -> None:
        self.tally = tally
        self.seed = seed
        """None: it is the control."""
        fault = tally.fault
        self.folder = Path(tempfile.mkdtemp(prefix=f"{fault.number}-"))
        if seed is None:
            self.child = Child(partial(fault.control, self.folder))
        else:
            self.child = Child(partial(fault.run, self.folder, seed))
        self._latest = time.monotonic() + SECONDS_A_CASE

    def has_ended(self) -> bool:
        """Whether it has ended, or is ended now, because it hangs."""
        if time.monotonic() > self._latest:
            self.child.process.kill()
            return True
        return self.child.answer.poll()

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Soak:
    """Runs cases, several at a time, and counts."""

    def __init__(self, faults: list[Fault], jobs: int, keep: Path) -> None:
        self.tallies = [Tally(fault, fault.missing()) for fault in faults]
        self._jobs = jobs
        self._keep = keep
        self._under_way: list[Case] = []

    def run(self, seed: int, cases: int = 0) -> None:
        """Run so many cases of each class; or the controls, and CI's share of cases."""
        forks()  # so that all cases share the servers
        gc.freeze()  # or each case, and each of its forks, copies all when it collects
        for case in self._plan(seed, cases):
            self._under_way.append(Case(*case))
            self._collect(self._jobs - 1)
        self._collect(0)

    def _plan(self, seed: int, cases: int) -> Iterator[tuple[Tally, int | None]]:
        """Yield classes and seeds, the cases of each class spread over the run."""
        active = [tally for tally in self.tallies if tally.skipped is None]
        if not cases:
            yield from ((tally, None) for tally in active)
        counts = {tally: cases or tally.fault.cases for tally in active}
        most = max(counts.values(), default=0)
        for turn in range(most):
            for tally, count in counts.items():
                number = -(-turn * count // most)
                if number * most < (turn + 1) * count:
                    yield tally, seed + number

    def stop(self) -> None:
        """End the running cases; they do not count."""
        for case in self._under_way:
            case.child.process.terminate()
        for case in self._under_way:
            case.child.process.join()
            case.remove()

    def _collect(self, left: int) -> None:
        """Take the outcomes of cases that end, until so many are left."""
        while len(self._under_way) > left:
            wait([case.child.answer for case in self._under_way], timeout=1.0)
            for case in [one for one in self._under_way if one.has_ended()]:
                self._under_way.remove(case)
                self._take(case, case.child.outcomes())
                case.remove()

    def _take(self, case: Case, outcomes: list[Outcome]) -> None:
        bad = [outcome for outcome in outcomes if outcome.verdict != "ok"]
        if case.seed is None:
            case.tally.control = "caught" if bad else MISSED
            return
        case.tally.verdicts.update(outcome.verdict for outcome in outcomes)
        if bad:
            self._keep_case(case, bad)

    def _keep_case(self, case: Case, bad: list[Outcome]) -> None:
        number = case.tally.fault.number
        place = self._keep / f"{number}-{case.seed}"
        self._keep.mkdir(parents=True, exist_ok=True)
        # Which can copy sockets and pipes, too.
        subprocess.run(["cp", "-aT", case.folder, place], check=True)
        lines = [f"{number}, seed {case.seed}: {len(bad)} bad; files kept in {place}"]
        lines += [f"  {outcome.verdict}: {outcome.words}" for outcome in bad[:3]]
        lines += [
            f"  repeat: python -m tests.crash.soak --only {number} --seed {case.seed}"
            " --cases 1"
        ]
        print("\n".join(lines), file=sys.stderr, flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def table(tallies: list[Tally]) -> str:
    """The table of trials, in Markdown."""
    head = ["", "fault", "trials", *VERDICTS, "bound (3/N)", "control"]
    rows = [head, ["---"] * len(head), *(tally.row() for tally in tallies)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.soak", description=__doc__
    )
    much = parser.add_mutually_exclusive_group(required=True)
    much.add_argument("--share", choices=["ci"], help="what CI runs")
    much.add_argument(
        "--cases", type=int, default=0, metavar="N", help="so many of each class"
    )
    parser.add_argument("--only", metavar="F2,F3", help="only these classes")
    parser.add_argument("--seed", type=int, help="of the first case (default: random)")
    parser.add_argument(
        "--jobs", type=int, default=JOBS, help=f"cases at a time ({JOBS})"
    )
    parser.add_argument(
        "--keep", type=Path, default=Path("crash-cases"), help="where failures go"
    )
    options = parser.parse_args()
    use_memory()

    only = options.only.split(",") if options.only else None
    numbers = [fault.number for fault in EVERY_FAULT]
    if only and (unknown := set(only) - set(numbers)):
        parser.error(f"--only {','.join(sorted(unknown))}: there are {numbers}")
    faults = [fault for fault in EVERY_FAULT if not only or fault.number in only]
    seed = random.randrange(1 << 20) if options.seed is None else options.seed
    soak = Soak(faults, options.jobs, options.keep)
    begun = time.monotonic()
    print(f"seed {seed}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        soak.run(seed, options.cases)
    except KeyboardInterrupt:
        soak.stop()
        print("interrupted: this is what there is so far", file=sys.stderr)
    print(table(soak.tallies))
    print(f"\nseed {seed}, {time.monotonic() - begun:.0f} s")
    return int(any(tally.failed for tally in soak.tallies))


if __name__ == "__main__":
    sys.exit(main())
