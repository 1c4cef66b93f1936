"""``info`` of a crawl on Redis, compared with its actual history; and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.jobs import run
from support.redis_server import RedisServer
from support.standing_crawl import BYTES, IDENTITY, PARTITIONS, StandingCrawl
from support.waiting import until

import bloomdupe
from bloomdupe import BloomFilter
from bloomdupe.moving.collecting import Collecting
from bloomdupe.redis.frontier_header import FORMAT
from bloomdupe.redis.shared_frontier import SharedFrontier

DOCUMENT = Path(bloomdupe.__file__).parent / "docs" / "redis.md"
RIGHTS = re.search(r"only\s+looks.*?`(~.*?)`", DOCUMENT.read_text(), re.DOTALL)
assert RIGHTS is not None
LOOKERS_RIGHTS = RIGHTS[1].split()
"""None of them changes anything."""


@pytest.fixture
def info(capsys: pytest.CaptureFixture[str]) -> Callable[[str], dict[str, Any]]:
    """Return the output of ``info --json`` for a URL."""

    def ask(url: str) -> dict[str, Any]:
        answer = run(capsys, "info", url, "--json")
        assert (answer.code, answer.err) == (0, "")
        found: dict[str, Any] = json.loads(answer.out)
        return found

    return ask


def test_all_figures_agree_with_the_history(
    url: str,
    info: Callable[[str], dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    crawl = StandingCrawl(url)
    crawl.fill(20, 30)
    crawl.fill(20, 40)  # three of four are known
    for worker in crawl.workers:
        crawl.lease(worker, 50)
        crawl.settle(worker, 20)
    found = info(url)
    job = found["job"]
    assert (found["path"], found["identity"]) == (url, IDENTITY)
    assert (found["capacity"], found["fpp"], found["keys"]) == (10_000, 1e-6, 800)
    assert 0 < found["current_fpp"] < 1e-6
    assert 0 < found["expected_loss"] < 800e-6
    assert found["grown_partitions"] == 0
    assert job["state"] == "running"
    assert (job["taken_in"], job["leased"]) == (800, 60)
    assert (job["pages"], job["items"]) == (40, 40)
    seen = json.loads(run(capsys, "top", url, "--json", "--interval", "0.1").out)
    totals = seen["totals"]
    of_all = {"pages": 40, "items": 40, "bytes": 40 * BYTES, "duplicates": 0}
    assert of_all.items() <= totals.items()
    assert (totals["statuses"], totals["depths"]) == ({"200": 40}, {"1": 40})
    by_slot = totals["by_slot"].values()
    assert [sum(one) for one in zip(*by_slot, strict=True)] == [40, 40 * BYTES]
    assert job["pending"] == 700 == crawl.waiting.total()
    assert job["slots"] == len(crawl.waiting)
    assert job["largest"].items() <= crawl.waiting.items()
    most = sorted(crawl.waiting.values(), reverse=True)[:10]
    assert list(job["largest"].values()) == most
    assert job["workers"] == 2
    assert job["partitions"] == PARTITIONS
    assert job["unowned_partitions"] == 0


def test_the_text_has_the_same_figures(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = StandingCrawl(url)
    crawl.fill(3, 10)
    crawl.lease("one", 1)
    out = run(capsys, "info", url).out
    leased = len(crawl.leased["one"])
    for words in (
        f"^crawl +{re.escape(url)}$",
        "^made for spider +site$",
        "^partitions +5$",
        "^URLs seen, counted +30$",
        r"^job +running \(2 workers\)$",
        f"^requests pending +{30 - leased}, of 30 ever added$",
        f"^requests in progress +{leased}$",
        "^  host[012].example +10$",
        "^workers +2$",
        "^memory of this Redis +.* used by all data$",
    ):
        assert re.search(words, out, re.MULTILINE), (words, out)


def test_a_crawl_begins_stops_and_finishes(
    url: str,
    info: Callable[[str], dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    SharedFrontier.open(url, 10_000, partitions=PARTITIONS, identity=IDENTITY).close()
    assert info(url)["job"]["state"] == "not begun"
    crawl = StandingCrawl(url)
    crawl.fill(7, 3)
    crawl.close()
    assert info(url)["job"]["state"] == "not begun"  # no page was fetched so far
    crawl = StandingCrawl(url)
    crawl.lease("one", 1)
    crawl.settle("one", 1)
    crawl.close()
    job = info(url)["job"]
    assert (job["state"], job["workers"]) == ("stopped", 0)
    assert job["unowned_partitions"] == PARTITIONS
    looks = (["info", url], ["top", url, "--interval", "0.1"])
    shown = [run(capsys, *look).out for look in looks]
    assert all("without a worker" in one for one in shown)
    crawl = StandingCrawl(url)
    crawl.work_off()
    crawl.close()
    shown = [run(capsys, *look).out for look in looks]
    assert not any("without a worker" in one for one in shown)
    job = info(url)["job"]
    assert (job["state"], job["pending"], job["pages"]) == ("finished", 0, 21)
    assert (job["slots"], job["largest"]) == (0, {})


def test_a_silent_worker_is_gone_when_its_lease_has_ended(
    url: str,
    info: Callable[[str], dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    crawl = StandingCrawl(url, workers=["one"], lease_seconds=0.2)
    crawl.fill(7, 3)
    crawl.lease("one", 5)
    until(lambda: not info(url)["job"]["workers"])
    job = info(url)["job"]
    assert (job["state"], job["state_detail"]) == ("no sign of life", "one")
    assert job["unowned_partitions"] == PARTITIONS
    assert (job["leased"], job["pending"]) == (5, 16)
    shown = run(capsys, "top", url, "--interval=0.1").out
    assert "No worker is alive" in shown
    assert "a callback" not in shown.lower()


def test_a_filter_that_has_grown_is_named(
    url: str,
    info: Callable[[str], dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    crawl = StandingCrawl(url)
    crawl.fill(1, 4_000)  # twice a partition's share, and it has some room
    found = info(url)
    assert (found["grown_partitions"], found["keys"]) == (1, 4_000)
    assert found["expected_loss"] < 4_000e-6
    assert "5, 1 grown" in run(capsys, "info", url).out


def test_output_is_counted_until_it_is_collected_and_deleted(
    url: str, info: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    crawl = StandingCrawl(url)
    crawl.fill(10, 10)
    crawl.work_off()
    crawl.fill(10, 15)
    crawl.work_off()
    entries = sum(bool(one.done) for one in crawl.workers["one"].counts())
    assert info(url)["job"]["output_entries"] == 2 * entries
    with Collecting.open(url, tmp_path, delete=True, progress=lambda _: None) as one:
        one.run()
    assert info(url)["job"]["output_entries"] == 0
    crawl.fill(10, 20)
    crawl.work_off()
    assert info(url)["job"]["output_entries"] == entries


def test_nothing_is_changed_and_nothing_but_reading_is_needed(
    server: RedisServer,
    url: str,
    info: Callable[[str], dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    crawl = StandingCrawl(url)
    crawl.fill(20, 30)
    crawl.lease("one", 10)
    with server.client() as client:
        client.execute_command("ACL SETUSER", "looker", "on", ">pw", *LOOKERS_RIGHTS)
        before = client.info("persistence")["rdb_changes_since_last_save"]
        looked_at = url.replace("unix://", "unix://looker:pw@")
        found = info(looked_at)
        assert found["job"]["pending"] == 590
        for verb, *options in (("list",), ("top", "--interval=0.1")):
            assert run(capsys, verb, looked_at, *options).code == 0
        after = client.info("persistence")["rdb_changes_since_last_save"]
        assert (before, "pw" in json.dumps(found)) == (after, False)


# What is refused


@pytest.mark.parametrize("verb", ["info", "list", "top", "report"])
def test_unreadable_records_are_refused(
    server: RedisServer,
    url: str,
    capsys: pytest.CaptureFixture[str],
    verb: str,
) -> None:
    def refused(place: str, words: str, code: int = 1) -> None:
        answer = run(capsys, verb, place)
        assert answer.code == code
        assert re.search(words, answer.err), answer.err
        assert answer.err.startswith(f"bloomdupe {verb}: ")
        assert answer.out == ""
        assert "open-sesame" not in answer.err

    head = f"bloomdupe:{{{url.partition('#')[2]}}}"
    wrong_password = url.replace("unix://", "unix://nobody:open-sesame@")
    refused(wrong_password, "Redis refuses this user")
    refused("redis://localhost:1/0#a", "no Redis answers there")
    refused("redis://localhost:1/0", "must end in the name", code=2)
    refused(url, "there is (no|neither a) crawl")
    with server.client() as client:
        client.hset(head, "a", "b")
        refused(url, "holds something else")
        client.delete(head)
        client.set(head, "a")
        refused(url, "holds something else")
        client.delete(head)
        crawl = StandingCrawl(url)
        crawl.fill(3, 3)
        client.hset(head, "frontier", 99)
        refused(url, "has format 99, this version of bloomdupe reads")
        client.hset(head, "frontier", FORMAT)
        client.hdel(head, "whole")
        refused(url, "is just being made")
        client.hset(head, "whole", 1)
        rights = [*LOOKERS_RIGHTS, "-zcard"]
        client.execute_command("ACL SETUSER", "blind", "on", ">open-sesame", *rights)
        blind = url.replace("unix://", "unix://blind:open-sesame@")
        refused(blind, "Redis refuses this user .* the rights of the user")
        client.hset(head, "header", "{")
        refused(url, "is not as it was written")
        client.delete(head)
        refused(url, "there is (no|neither a) crawl")


def test_a_deleted_partition_is_not_taken_for_an_empty_partition(
    server: RedisServer, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = StandingCrawl(url)
    crawl.fill(3, 3)
    with server.client() as client:
        client.delete(f"bloomdupe:{{{url.partition('#')[2]}}}:2")
    answer = run(capsys, "info", url)
    assert answer.code == 1
    assert f"{url}:2 is gone" in answer.err


def test_a_filter_and_a_crawl_are_told_apart(
    url: str, info: Callable[[str], dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    with BloomFilter.open(url, 100, identity={"spider": "site"}) as seen:
        seen.update(f"https://www.example/{number}" for number in range(250))
    for verb, *options in (["list"], ["top"], ["report"], ["reset", "--yes"]):
        answer = run(capsys, verb, url, *options)
        assert answer.code == 1
        assert "is a filter, and no crawl: `bloomdupe info` says what" in answer.err
    found = info(url)
    assert (found["keys"], found["job"]) == (250, None)
    assert [layer["keys"] for layer in found["layers"]] == [100, 150]
    shown = run(capsys, "info", url).out
    for words in (url, "made for spider", "site", "250"):
        assert words in shown
    for words in ("journal", "disk", "job"):
        assert words not in shown


def test_other_verbs_want_a_directory(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with_password = url.replace("//", "//:open-sesame@")
    for verb in ("check", "verify"):
        urls = ["https://a.example/"] if verb == "check" else []
        answer = run(capsys, verb, with_password, *urls)
        assert (answer.code, answer.out) == (2, "")
        assert "expected a JOBDIR, or the directory of a store" in answer.err
        verbs = "are info, list, top, report, add,"
        assert verbs in answer.err
        assert "open-sesame" not in answer.err
    assert not [*tmp_path.iterdir()]
