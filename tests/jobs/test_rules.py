"""The rules of a job: the file that verbs replace, and what they mean."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.jobs import Verb, make_job

from bloomdupe.crawl.state.rules import (
    MOST_BYTES,
    Rules,
    RulesInForce,
    change_rules,
    rules_of,
    text_of_rules,
)

URL = "https://a.example/x"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return make_job(tmp_path / "job", [URL])


@pytest.fixture
def store(job: Path) -> Path:
    return job / "bloomdupe"


@pytest.mark.parametrize(
    ("rule", "kept_out"),
    [
        ({"slot": "a"}, {"a/x", "a/y"}),
        ({"pattern": "/x$"}, {"a/x", "b/x"}),
        ({"slot": "b", "pattern": "/x"}, {"b/x"}),
        ({"url": "https://a/x?"}, {"a/x"}),
    ],
)
def test_a_rule_keeps_requests_out(rule: dict[str, str], kept_out: set[str]) -> None:
    rules = Rules().adding("blocked", [rule])
    found = {
        f"{slot}/{path}"
        for slot in "ab"
        for path in "xy"
        if rules.keep_out(slot, f"https://{slot}/{path}")
    }
    assert found == kept_out


def test_a_rule_that_is_there_is_not_added_again() -> None:
    rules = Rules().adding("blocked", [{"slot": "a"}]).adding("paused", ["b"])
    assert rules.adding("blocked", [{"slot": "a"}]) == rules
    assert rules.adding("paused", ["b"]) == rules


def test_each_stop_is_another_one_even_if_the_clock_goes_back() -> None:
    first = Rules().stopping(100)
    assert first.stopping(7).stop not in (first.stop, 0)
    assert first.adding("paused", ["a"]).stop == first.stop


FIFO, LINK, FOLDER = "a FIFO", "a link", "a folder"
NOT_REGULAR = "rules.json is not a regular file, and a symbolic link is not followed"


def _blocking(*rules: object) -> str:
    return json.dumps({"blocked": rules})


BAD = [
    ("{", "cannot read"),
    ("", "cannot read"),
    ("\udcff", "cannot read"),
    ("[]", "it is no JSON object"),
    ("[" * 100_000, "cannot read"),
    ("1" * 5_000, "cannot read"),
    (json.dumps({"bloked": []}), "it has an unknown field 'bloked'"),
    (json.dumps({"blocked": {}}), "a field has a value of another kind"),
    (json.dumps({"paused": [1]}), "a field has a value of another kind"),
    (json.dumps({"stop": True}), "a field has a value of another kind"),
    (_blocking("x"), "a field has a value of another kind"),
    (_blocking({}), "it has an unknown rule {}"),
    (_blocking({"slot": 1}), "it has an unknown rule"),
    (_blocking({"url": "http://[x"}), "Invalid IPv6 URL"),
    (_blocking({"pattern": "("}), "'(' is not a regular expression"),
    (_blocking({"pattern": "(" * 5_000}), "is not a regular expression"),
    (_blocking({"pattern": "x{99999999999999999999}"}), "is not a regular expression"),
    (" " * (MOST_BYTES + 1), f"it has more than {MOST_BYTES:,} bytes"),
    (FIFO, NOT_REGULAR),
    (LINK, NOT_REGULAR),
    (FOLDER, NOT_REGULAR),
]
"""Texts, or kinds of file, each with what is said about it."""


def make_bad(store: Path, text: str) -> None:
    """Put a file that holds no rules in the place of the rules of a store."""
    new, place = store / "bad", store / "rules.json"
    if text == FIFO:
        os.mkfifo(new)
    elif text == LINK:
        new.symlink_to("data.mdb")
    elif text == FOLDER:
        place.unlink(missing_ok=True)
        place.mkdir()
        return
    else:
        new.write_text(text, errors="surrogateescape")
    new.replace(place)


@pytest.mark.parametrize(("text", "why"), BAD)
def test_a_file_that_holds_no_rules_is_refused_in_one_line(
    store: Path,
    verb: Verb,
    job: Path,
    text: str,
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    change_rules(store, lambda there: there.adding("paused", ["a"]))
    no_stats: Any = None
    rules = RulesInForce(lambda: text_of_rules(store), store, no_stats)
    make_bad(store, text)
    for _ in range(2):
        assert rules.update() is None
    (said,) = caplog.messages  # once
    assert why in said
    assert rules.now == Rules().adding("paused", ["a"])
    for name, *words in (
        ["info"],
        ["block", "--slot", "x"],
        ["resume", "--slot", "a"],
        ["add", URL],
        ["drop", "--slot", "x"],
    ):
        answer = verb(name, job, *words)
        assert (answer.code, answer.out) == (1, ""), name
        assert why in answer.err
        assert answer.err.count("\n") == 1
    place = job / "bloomdupe/rules.json"
    place.rmdir() if place.is_dir() else place.unlink()
    assert verb("pause", job, "--slot", "a.example").code == 0
    assert rules.update() is not None
    assert rules.now == Rules().adding("paused", ["a.example"])


def test_processes_that_change_rules_at_the_same_time_lose_none(store: Path) -> None:
    """The control: the lock of one directory makes them wait for each other."""

    def pause(number: int) -> None:
        change_rules(store, lambda there: there.adding("paused", [f"slot{number}"]))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(pause, range(100)))
    assert len(rules_of(store).paused) == 100


def test_a_backup_has_the_rules(verb: Verb, job: Path, tmp_path: Path) -> None:
    verb("block", job, "--pattern", "x")
    verb("pause", job, "--slot", "a.example")
    rules = rules_of(job / "bloomdupe")
    assert verb("backup", job, "copy").code == 0
    assert rules_of(tmp_path / "copy") == rules
