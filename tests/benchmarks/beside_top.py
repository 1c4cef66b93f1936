"""What a crawl costs while ``bloomdupe top`` looks at it, beside one left alone.

``python tests/benchmarks/beside_top.py [--rounds N]`` crawls a site from memory, in
each round left alone, looked at every two seconds, and every half second. Figures are
medians over the rounds of the user CPU of the crawling process, and of its ratio to the
one that was left alone in the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from machine import describe
from report import Report

HERE = Path(__file__).parent
PAGES, LINKS, HOSTS = 20_000, 20, 1_000
ALONE = "left alone"
SETTINGS: dict[str, Any] = {"ADDONS": {"bloomdupe.Addon": 500}}


def crawl(interval: float | None) -> tuple[float, float]:
    """Return the user CPU of a crawl, and the CPU of ``top`` per second of it."""
    with tempfile.TemporaryDirectory() as job:
        settings = json.dumps({**SETTINGS, "JOBDIR": job})
        sizes = map(str, (PAGES, LINKS, HOSTS))
        command = [sys.executable, str(HERE / "from_memory.py"), *sizes, settings]
        begun = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            looking = 0.0
            if interval is not None:
                while not Path(job, "bloomdupe").exists():
                    assert child.poll() is None
                    time.sleep(0.01)
                looking = look(job, interval, child)
            out, _ = child.communicate()
        seconds = time.monotonic() - begun
    found = json.loads(out)
    assert found["reason"] == "finished", found
    return found["user"], looking / seconds


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    rounds = parser.parse_args().rounds
    report = Report(describe())
    variants = {ALONE: None, "every 2 s": 2.0, "every 0.5 s": 0.5}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, interval in variants.items():
            found[name].append(crawl(interval))
    rows = []
    for name, results in found.items():
        ratios = [
            mine[0] / alone[0]
            for mine, alone in zip(results, found[ALONE], strict=True)
        ]
        rows.append(
            [
                name,
                f"{statistics.median(user for user, _ in results):.2f} s",
                f"{statistics.median(ratios):.3f}",
                f"{min(ratios):.3f}-{max(ratios):.3f}",
                f"{statistics.median(each for _, each in results):.1%}",
            ]
        )
    report.table(
        "A crawl that is looked at",
        f"{PAGES:,} pages with {LINKS} links on {HOSTS:,} hosts, from memory;"
        f" {rounds} rounds.",
        ["looked at", "user CPU", "ratio", "range", "`top` takes of a core"],
        rows,
    )
    return report.finish(None)


if __name__ == "__main__":
    sys.exit(main())
