"""No test fails by chance for one known reason.

Each pattern has controls: snippets with the pattern, which are all found.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from chance import PATTERNS, Finding, found_in

TESTS = Path(__file__).parents[1]
CONTROLS = Path(__file__)
LEFT_OUT = {"benchmarks"}

SLEEP, KILL, SIZE, PORT = PATTERNS

STRIKES = "A fault strikes at a random time, and the judge is right whenever it does."
SLOW = "It is slow on purpose; nothing is assumed about how far the rest is meanwhile."
OPEN = "The socket stays open for as long as its port is used."

JUSTIFIED = {
    f"{SLEEP} in crash/disturbed_crawl.py:_go_on": STRIKES,
    f"{SLEEP} in crash/disturbed_crawl.py:_interrupt": STRIKES,
    f"{SLEEP} in crash/redis_places.py:_promote": STRIKES,
    f"{SLEEP} in crash/redis_places.py:happen": STRIKES,
    f"{SLEEP} in support/redis_server.py:go_back": STRIKES,
    f"{SLEEP} in support/redis_server.py:stall": STRIKES,
    f"{SLEEP} in spiders/ending.py:process_item": SLOW,
    f"{SLEEP} in spiders/everyday.py:process_item": SLOW,
    f"{PORT} in crawl/test_metrics.py:"
    "test_a_port_that_is_taken_is_named_and_the_crawl_goes_on": OPEN,
    f"{PORT} in support/cutting.py:__init__": OPEN,
    f"{PORT} in support/ports.py:kept_port": "It keeps the port.",
    f"{PORT} in support/site.py:until_quiet": "It is the port of a client.",
    f"{SLEEP} in support/delays.py:dawdle": SLOW,
    f"{SLEEP} in support/site.py:enter": SLOW,
    f"{SLEEP} in support/stops.py:pause": "It is what the loops of the stops call.",
}
"""Exceptions, with their reasons."""


def modules() -> list[Path]:
    """Return the modules that pytest or a fault trial runs."""
    return [
        path
        for path in sorted(TESTS.rglob("*.py"))
        if path.relative_to(TESTS).parts[0] not in LEFT_OUT and path != CONTROLS
    ]


def test_no_test_fails_by_chance() -> None:
    found = {
        f"{finding.pattern} in {finding.place}"
        for path in modules()
        for finding in found_in(path.relative_to(TESTS).as_posix(), path.read_text())
    }
    assert found - JUSTIFIED.keys() == set()
    assert JUSTIFIED.keys() - found == set(), "justified, but not there any more"


@pytest.mark.parametrize(
    ("pattern", "snippet"),
    [
        (SLEEP, "time.sleep(0.2)\nassert done"),
        (SLEEP, "for _ in range(3):\n    sleep(0.1)"),
        (SLEEP, "while not done:\n    def f():\n        time.sleep(1)"),
        (SLEEP, "async def parse(self, response):\n    await asyncio.sleep(0.2)"),
        (KILL, "threading.Timer(0.5, process.kill).start()"),
        (KILL, "loop.call_later(1, lambda: process.send_signal(9))"),
        (KILL, "reactor.callLater(1, os.kill, 1, 9)"),
        (KILL, "try:\n    p.wait(1)\nexcept TimeoutExpired:\n    p.kill()"),
        (
            KILL,
            "with suppress(subprocess.TimeoutExpired):\n    p.wait(1)\np.terminate()",
        ),
        (SIZE, "while path.stat().st_size < 300:\n    time.sleep(0.1)"),
        (SIZE, "while not (data.exists() and getsize(data) > 3):\n    pass"),
        (
            SIZE,
            "def f():\n    wait_until(lambda: d.stat().st_mtime_ns != before, child)",
        ),
        (SIZE, "until(lambda: path.stat().st_size > 300)"),
        (PORT, "def f():\n    with socket() as s:\n        return s.getsockname()[1]"),
    ],
)
def test_a_pattern_is_found(pattern: str, snippet: str) -> None:
    assert pattern in {finding.pattern for finding in found_in("a.py", snippet)}


@pytest.mark.parametrize(
    "snippet",
    [
        "while not done():\n    assert time.monotonic() < end\n    time.sleep(0.01)",
        "while not done:\n    await asyncio.sleep(0.01)\nprocess.kill()",
        "while True:\n    if done:\n        break\n    time.sleep(0.01)",
        "os.sched_yield()\ntime.sleep(0)",
        "assert path.stat().st_size == 300",
        "try:\n    p.wait(60)\nfinally:\n    p.kill()",
    ],
)
def test_waiting_for_an_event_passes(snippet: str) -> None:
    assert found_in("a.py", snippet) == []


def test_a_finding_is_named_by_its_function() -> None:
    source = "class A:\n    def stop(self):\n        sleep(1)"
    assert found_in("a.py", source) == [Finding("a.py:stop", SLEEP)]
