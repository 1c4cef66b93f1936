"""The costs of the verbs on a large job: CPU, memory, and the longest silence.

``python tests/benchmarks/verbs.py [REQUESTS] [URLS]`` makes a job with so many pending
requests, a million unless given, in 1,000 slots, and so many URLs seen, ten million.
The first verbs come after a process that was killed in the middle of a commit.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgpack  # type: ignore[import-untyped]
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter

from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.payload import short_url
from bloomdupe.links.fingerprint import fingerprint_function
from bloomdupe.store import files
from bloomdupe.store.lmdb.trust import OpenData

SLOTS = 1_000
HOST = "www7.example.com"
AFTER_A_KILL = ("info job", "add job https://example.com/killed")
VERBS = (
    "info job",
    "list job --limit 10",
    f"list job --slot {HOST}",
    "list job --pattern page-77[.]html",
    "list job",
    "check job https://example.com/x",
    f"check job https://{HOST}/some/path/page-7.html",
    "add job https://example.com/x",
    "requeue job https://example.com/x",
    f"drop job --slot {HOST}",
    "block job --pattern page-1.*7[.]html",
    "verify job",
    "backup job backup",
    "add copy --from urls --spider site",
    "drop job --pattern .",
    "reset job --yes",
)


def make(job: Path, requests: int, urls: int) -> None:
    """Make the job."""
    fingerprint = fingerprint_function(RequestFingerprinter())
    identity = {
        "spider": "site",
        "fingerprinter": "scrapy.utils.request.RequestFingerprinter",
        "exact": False,
    }
    with BloomFilter.open(job / "bloomdupe", urls, identity=identity) as seen:
        frontier = Frontier(seen)
        for number in range(urls):
            if number < requests:
                host = f"www{number % SLOTS}.example.com"
                url = f"https://{host}/some/path/page-{number}.html"
                seen.add(fingerprint(Request(url)))
                frontier.push(host, 0, msgpack.packb([short_url(url), 3]))
            else:
                seen.add(b"%020d" % number)
            if frontier.due:
                frontier.checkpoint()
        seen.notes["run"] = "shutdown"
        frontier.checkpoint()


def kill_in_a_commit(job: Path) -> None:
    """Be killed when LMDB has written pages of a commit, and not yet its head."""
    store = job / "bloomdupe"
    frontier = Frontier(BloomFilter.open(store))
    frontier.push(HOST, 0, b"x")
    begin = OpenData.begin_commit

    def begin_and_die(self: OpenData, transaction: int) -> None:
        begin(self, transaction)
        with (store / files.DATA).open("ab") as file:
            file.write(bytes(1 << 20))
        os.kill(os.getpid(), signal.SIGKILL)

    OpenData.begin_commit = begin_and_die  # type: ignore[method-assign]
    frontier.checkpoint()


def apart(call: Callable[..., None], *arguments: object) -> int | None:
    """Call a function in a new process; return its exit code."""
    # A child's memory is counted from that of its parent on.
    child = multiprocessing.get_context("spawn").Process(target=call, args=arguments)
    child.start()
    child.join()
    return child.exitcode


def cost(folder: Path, words: str) -> tuple[float, int, float]:
    """Call a verb at a terminal.

    Returns its CPU seconds, the most memory in MB, and the longest time in seconds
    without any sign of life: no line, and no bar.
    """
    script = str(Path(sys.executable).with_name("bloomdupe"))
    ours, theirs = pty.openpty()
    begun = time.monotonic()
    child = subprocess.Popen(
        [script, *words.split()],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    longest, last = 0.0, begun
    shown = b""
    while True:
        try:
            shown = (shown + os.read(ours, 1 << 16))[-2_000:]
        except OSError:  # Linux says so when the other end is closed
            break
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    os.close(ours)
    _, code, used = os.wait4(child.pid, 0)
    longest = max(longest, time.monotonic() - last)
    child.returncode = os.waitstatus_to_exitcode(code)
    assert child.returncode == 0, shown.decode(errors="replace")
    return used.ru_utime + used.ru_stime, used.ru_maxrss // 1000, longest


def main() -> None:
    """Make the job, call the verbs, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests", nargs="?", type=int, default=1_000_000)
    parser.add_argument("urls", nargs="?", type=int, default=10_000_000)
    parser.add_argument("--only", default=".", help="verbs that match this expression")
    given = parser.parse_args()
    requests, urls = given.requests, given.urls
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = folder / "job"
        assert apart(make, job, requests, urls) == 0
        with (folder / "urls").open("w") as file:
            for number in range(requests):
                file.write(f"https://www{number % SLOTS}.example.org/{number}\n")
        size = (job / "bloomdupe" / files.DATA).stat().st_size
        print(f"{requests:,} requests, {urls:,} URLs, {size / 1e6:,.0f} MB")
        assert apart(kill_in_a_commit, job) == -signal.SIGKILL
        assert files.read_mark(job / "bloomdupe").interrupted
        for words in AFTER_A_KILL:
            show(folder, words, ", after a kill in a commit")
        for words in VERBS:
            if re.match(given.only, words):
                show(folder, words)


def show(folder: Path, words: str, when: str = "") -> None:
    """Call a verb, and print its costs."""
    seconds, megabytes, silence = cost(folder, words)
    figures = f"{seconds:8.2f} s {megabytes:6,} MB {silence:6.1f} s silent"
    print(f"{words + when:<70} {figures}", flush=True)


if __name__ == "__main__":
    main()
