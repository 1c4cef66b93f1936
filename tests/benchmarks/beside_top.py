"""The costs of a crawl while ``bloomdupe top`` looks at it, beside one left alone.

``python tests/benchmarks/beside_top.py [--rounds N]`` crawls a site from memory, in
each round left alone, looked at every two seconds, and every half second. Figures are
medians over the rounds of the user CPU of the crawling process, and of its ratio to the
crawl that was left alone in the same round.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from machine import describe
from runner import ADDON, Report, child, in_turn, options
from support.waiting import until

PAGES, LINKS, HOSTS = 20_000, 20, 1_000
ALONE = "left alone"


def crawl(interval: float | None) -> dict[str, Any]:
    """Return the user CPU of a crawl, and the CPU of ``top`` per second of it."""
    with tempfile.TemporaryDirectory() as job:
        command = child(
            "InMemory", {**ADDON, "JOBDIR": job}, pages=PAGES, links=LINKS, hosts=HOSTS
        )
        begun = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            looking = 0.0
            if interval is not None:
                until(Path(job, "bloomdupe").exists)
                looking = look(job, interval, process)
            out, _ = process.communicate()
        seconds = time.monotonic() - begun
    found: dict[str, Any] = json.loads(out)
    assert found["finish_reason"] == "finished", found
    return {**found, "top": looking / seconds}


def look(job: str, interval: float, crawl: subprocess.Popen[str]) -> float:
    """Look at a crawl until it ends; return the CPU seconds that this takes."""
    script = str(Path(sys.executable).with_name("bloomdupe"))
    ours, theirs = pty.openpty()
    top = subprocess.Popen(
        [script, "top", job, "--interval", str(interval)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
    )
    os.close(theirs)
    reading = threading.Thread(target=drain, args=(ours,))
    reading.start()
    crawl.wait()
    os.write(ours, b"q")
    _, code, used = os.wait4(top.pid, 0)
    top.returncode = os.waitstatus_to_exitcode(code)
    reading.join()
    os.close(ours)
    assert top.returncode == 0
    return used.ru_utime + used.ru_stime


def drain(terminal: int) -> None:
    """Read what is shown, or its writer would wait."""
    while True:
        try:
            os.read(terminal, 1 << 16)
        except OSError:  # Linux says so when the other end is closed
            return


def main() -> int:
    """Crawl, and print a table."""
    given = options(__doc__, rounds=5)
    report = Report(describe("Scrapy"))
    ways = {ALONE: None, "every 2 s": 2.0, "every 0.5 s": 0.5}
    found = in_turn(given.rounds, {n: partial(crawl, way) for n, way in ways.items()})
    rows = [
        [
            name,
            f"{own.median('user')} s",
            own.of(found[ALONE], "user", ".3f"),
            own.median("top", ".1%"),
        ]
        for name, own in found.items()
    ]
    report.table(
        "A crawl that is looked at",
        f"{PAGES:,} pages with {LINKS} links on {HOSTS:,} hosts, from memory;"
        f" {given.rounds} rounds.",
        ["looked at", "user CPU", "ratio", "`top` takes of a core"],
        rows,
    )
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
