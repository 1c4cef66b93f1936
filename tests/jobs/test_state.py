"""Whether a job is alive: real crawls that hang, sleep, stop, or were killed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from spiders.follow import Follow, Hang
from support.crawl import Crawl
from support.jobs import Verb
from support.report_page import report_of
from support.site import Site

from bloomdupe.crawl.progress.pace import clock, when
from bloomdupe.jobs import view
from bloomdupe.jobs.view import Life, state_of
from bloomdupe.store import files

HOUR = 3_600.0


@pytest.fixture
def shown(crawl: Crawl, verb: Verb) -> Callable[[], dict[str, str]]:
    """Return a function that looks at the state of the job now, on each screen."""

    def call(name: str, *words: str) -> str:
        answer = verb(name, crawl.folder / "job", *words)
        assert answer.code == 0, answer.err
        return answer.out

    def look() -> dict[str, str]:
        (state,) = re.findall(r"^job +(.*)$", call("info"), re.MULTILINE)
        texts = report_of(verb, crawl.folder / "job").texts
        title, *texts = filter(None, texts)  # it is above the state, too
        return {
            "info": state,
            "json": json.loads(call("info", "--json"))["job"]["state"],
            "top": re.split(" {2,}", call("top").splitlines()[0])[1],
            "report": texts[texts.index(title) + 1],
        }

    return look


def heartbeat_of(crawl: Crawl) -> float | None:
    owner = files.owner_of(crawl.store) if crawl.store.exists() else None
    return None if owner is None else owner.heartbeat


def test_a_crawl_that_hangs_gives_no_sign_of_life(
    crawl: Crawl,
    shown: Callable[[], dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = crawl.start(Hang, CONCURRENT_REQUESTS=1)
    process.until_logged("it hangs")
    assert shown()["info"] == f"running (process {process.pid})"
    then = (heartbeat_of(crawl) or 0.0) + HOUR
    monkeypatch.setattr(view, "time", lambda: then)
    found = shown()
    said = f"no heartbeat for 60 min (process {process.pid})"
    assert (found["info"], found["top"]) == (said, said)
    assert found["report"].startswith("No heartbeat for 60 min")
    assert "Nothing is lost if you kill the process" in found["report"]
    assert found["json"] == "no heartbeat"
    process.kill()
    lock = crawl.store / files.OWNER
    text = lock.read_text()
    assert text.startswith(f"{process.pid}\n")
    # Another process has its number now, and a heartbeat is in the file.
    lock.write_text(text.replace(str(process.pid), str(os.getpid()), 1))
    found = shown()
    assert {found["info"], found["top"], found["json"]} == {"killed"}
    assert re.fullmatch(
        r"Killed\. \d+ pages?, \d+ pending.*\. Run the same command again: it.+",
        found["report"],
    )


def test_the_heartbeat_goes_on_while_nothing_changes_and_writes_no_data(
    crawl: Crawl, site: Site
) -> None:
    site.hold("/")
    process = crawl.start(Follow, BLOOMDUPE_PROGRESS_INTERVAL=0.05)
    process.until_requested("/")
    before: dict[str, Any] = {}

    def beats_quietly() -> bool:
        now = {
            "data": (crawl.store / files.DATA).stat(),
            "heartbeat": heartbeat_of(crawl),
        }
        last, moved = dict(before), now["heartbeat"] != before.get("heartbeat")
        before.update(now)
        return bool(last and moved and last["data"] == now["data"])

    process.until(lambda: heartbeat_of(crawl) is not None)
    process.until(beats_quietly)
    site.release()
    assert process.wait().finish_reason == "finished"
    assert heartbeat_of(crawl) is None


NOW = 1_790_000_000.0
ALIVE = Life("process 1", NOW)
OPEN, ENDED, STAYS = {"run": "open"}, {"run": "finished"}, {"stays": True}


@pytest.mark.parametrize(
    ("life", "notes", "ready", "due", "text"),
    [
        (ALIVE, OPEN, True, NOW + 60, "running (process 1)"),
        (ALIVE, STAYS, True, None, "running (process 1)"),
        (ALIVE, STAYS, False, None, "waiting for URLs (process 1)"),
        (
            *(ALIVE, OPEN, False, NOW + 60),
            f"sleeping until {clock(NOW + 60, NOW)}, 60 s to go (process 1)",
        ),
        # The clock was set back.
        (Life("x", NOW + HOUR), OPEN, True, None, "running (x)"),
        (Life("x", NOW - 21), OPEN, True, None, "no heartbeat for 21 s (x)"),
        (Life("x"), OPEN, True, None, "in use by x"),
        (Life(), {}, True, None, "not begun"),
        (Life(), OPEN, True, None, "killed"),
        (
            *(Life(), {**ENDED, "finished": 0.0}, False, None),
            f"finished at {when(0.0)}",
        ),
        (Life(), ENDED, True, None, "finished, and has requests again"),
    ],
)
def test_the_state_follows_from_the_signs(
    life: Life, notes: dict[str, Any], text: str, *, ready: bool, due: float | None
) -> None:
    assert state_of(life, notes, ready=ready, due=due, now=NOW).text == text
    assert files.SILENT_AFTER == 20.0
