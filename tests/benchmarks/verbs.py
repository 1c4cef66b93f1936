"""What the verbs cost on a large job: CPU, memory, and for how long they say nothing.

``python tests/benchmarks/verbs.py [REQUESTS] [URLS]`` makes a job with so many requests
that wait, a million unless given, in 1,000 slots, and so many URLs seen, ten million.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgpack  # type: ignore[import-untyped]
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter

from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.payload import short_url
from bloomdupe.links.fingerprint import fingerprint_function

SLOTS = 1_000
HOST = "www7.example.com"
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
    "export job job.jsonl",
    "import copy job.jsonl",
    "verify job",
    "backup job backup",
    "restore backup restored",
    "compact job",
    "union job backup",
    "add copy --from urls",
    "drop job --pattern .",
    "reset job --yes",
)


def make(job: Path, requests: int, urls: int) -> None:
    """Make the job."""
    fingerprint = fingerprint_function(RequestFingerprinter())
    identity = {
        "spider": "site",
        "fingerprinter": "scrapy.utils.request.RequestFingerprinter",
        "exact_urls": [],
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
        # Apart: a child's memory is counted from that of its parent on.
        maker = multiprocessing.get_context("spawn").Process(
            target=make, args=(folder / "job", requests, urls)
        )
        maker.start()
        maker.join()
        with (folder / "urls").open("w") as file:
            for number in range(requests):
                file.write(f"https://www{number % SLOTS}.example.org/{number}\n")
        size = (folder / "job/bloomdupe/data.mdb").stat().st_size
        print(f"{requests:,} requests, {urls:,} URLs, {size / 1e6:,.0f} MB")
        for words in VERBS:
            if re.match(given.only, words):
                seconds, megabytes, silence = cost(folder, words)
                figures = f"{seconds:8.2f} s {megabytes:6,} MB {silence:6.1f} s silent"
                print(f"{words:<60} {figures}", flush=True)


if __name__ == "__main__":
    main()
