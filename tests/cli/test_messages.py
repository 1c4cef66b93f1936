"""The messages of the command line when the user names a wrong path or value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from spiders.follow import Follow
from support.crawl import Crawl
from support.jobs import Verb, make_job
from support.monitored_jobs import monitored_job, store_of

from bloomdupe import BloomFilter
from bloomdupe.store.format import META, meta_records
from bloomdupe.store.store import Part


@pytest.fixture
def crawls(tmp_path: Path) -> Path:
    """Return a directory with two jobs, and a damaged one."""
    for name in ("alpha", "beta"):
        (tmp_path / "crawls" / name).mkdir(parents=True)
        monitored_job(tmp_path / "crawls" / name)
    broken = tmp_path / "crawls" / "broken" / "bloomdupe"
    broken.mkdir(parents=True)
    (broken / "data.mdb").write_bytes(b"x")
    return tmp_path / "crawls"


def test_jobs_are_a_table(verb: Verb, crawls: Path) -> None:
    answer = verb("info", crawls)
    assert answer.code == 1  # as `info` of the one that cannot be read
    head, *lines = answer.out.splitlines()
    assert head.split() == [
        "job", "state", "age", "pages/min", "pages", "pending", "failed"
    ]  # fmt: skip
    assert [line.split()[0] for line in lines] == [
        str(crawls / name) for name in ("alpha/job", "beta/job", "broken")
    ]
    assert re.search(r"stopped: shutdown +\S+ \S+ +1,200 +7 +4$", lines[0])
    assert "cannot be read: `bloomdupe verify" in lines[2]
    found = [
        json.loads(line) for line in verb("info", crawls, "--json").out.splitlines()
    ]
    assert [one["state"] for one in found] == ["stopped", "stopped", "cannot be read"]
    assert (found[0]["pending"], found[0]["failed"]) == (7, {"HTTP 404": 4})
    assert verb("info", crawls / "nothing").code == 1


@pytest.mark.parametrize("name", ["info", "list", "top", "verify", "backup"])
def test_the_jobs_beside_a_path_that_was_mistyped_are_named(
    verb: Verb, crawls: Path, name: str
) -> None:
    copy = [crawls / "copy"] if name == "backup" else []
    for place, hint in (
        ("alhpa", f", but `bloomdupe info {crawls}` shows 3 jobs"),
        ("gamma/delta/x", ""),
    ):
        answer = verb(name, crawls / place, *copy)
        assert (answer.code, answer.out) == (1, "")
        assert f"{place}: there is no bloomdupe store{hint}\n" in answer.err
    assert {path.name for path in crawls.iterdir()} == {"alpha", "beta", "broken"}


URL = "https://a.example/"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("drop", "`--pattern .` selects all"),
        ("drop no-url", "it is no URL such as https://example.com/: 'no-url'"),
        ("add", "no URLs are given: name some, or a file with --from"),
        ("requeue", "no URLs are given"),
        (f"requeue --failed {URL}", "--failed goes without URLs"),
        ("requeue --reason dns", "add --failed"),
        ("block", "name URLs, each a rule by itself, or --slot or --pattern"),
        (f"block {URL} --slot a", "each a rule by itself, or --slot"),
        ("block --pattern (", "--pattern: '(' is not a regular expression"),
        ("pause", "--slot SLOT names the slot to pause"),
        ("list --reason dns", "add --failed"),
        ("list --failed --reason often", "--reason = 'often': expected"),
        ("list --summary", "--summary groups failed requests: add --failed"),
        ("list --limit 0", "--limit = '0': expected a whole number"),
        ("top --interval 0", "--interval = 0.0: expected a positive number of seconds"),
        ("add --from nowhere", "cannot read nowhere: No such file or directory"),
        (f"add {URL} --spider other", "is that of spider 'site'"),
        ("collect files", "DIRECTORY, --follow, --delete and --rest are for a crawl"),
        ("report -o .", "--output .: it is a directory"),
        ("report -o - --json", "--output -: --json needs a file for the page"),
        ("size --fpp 2", "--fpp = '2': expected a probability"),
        ("size --urls 0", "--urls = '0': expected a whole number"),
        (f"size --fpp {'9' * 5_000}", "...: expected a probability"),
    ],
)
def test_bad_usage_is_an_error_in_one_line(
    verb: Verb, tmp_path: Path, words: str, said: str
) -> None:
    job = monitored_job(tmp_path)
    name, *more = words.split()
    answer = verb(name, *([] if name == "size" else [job]), *more)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_a_place_that_is_no_crawls_is_refused(verb: Verb, tmp_path: Path) -> None:
    BloomFilter.open(tmp_path / "job/bloomdupe", 100).close()
    for words, said in (
        (["check", "job", URL], "not that of a crawl"),
        (["top", "job"], "no crawl has used this store"),
        (["info", "x" * 300], "File name too long"),
    ):
        answer = verb(*words)
        assert (answer.code, answer.out) == (1, "")
        assert said in answer.err


def test_a_record_of_the_filter_that_lacks_a_field_is_damage(
    verb: Verb, tmp_path: Path
) -> None:
    with store_of(make_job(tmp_path / "job", [])) as store:
        record = store.now.record("filter")
        assert record is not None
        del record["notes"]
        store.commit(Part(changes={META: meta_records({"filter": record})}))
    for words in (["info", "job"], ["check", "job", URL]):
        answer = verb(*words)
        assert (answer.code, answer.out) == (1, "")
        assert "the record of the filter lacks notes" in answer.err
        assert answer.err.count("\n") == 1


# In a crawl


def test_a_run_says_how_it_ended_and_how_to_go_on(crawl: Crawl) -> None:
    log = crawl.interrupted(Follow, after=3, CONCURRENT_REQUESTS=1).log
    said = r"Stopped; [34] pages, 0 items, \d+ requests pending: run the same command"
    assert re.search(said, log)
    log = crawl.run(Follow).log
    assert re.search(r"Resuming crawl \(\d+ requests scheduled\); .* shutdown\n", log)
    assert "Finished; 13 pages, 0 items\n" in log
    log = crawl.run(Follow).log
    assert "This job was finished at " in log
    assert "Finished; " not in log  # there is nothing to do
