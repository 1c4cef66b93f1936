"""The verbs of a job: its engine defines the operations that they need."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.jobs import run

from bloomdupe.cli.main import VERBS
from bloomdupe.jobs import ENGINES, open_job
from bloomdupe.jobs.job_contract import Job
from bloomdupe.jobs.on_disk.job_on_disk import JobOnDisk
from bloomdupe.jobs.on_redis.job_on_redis import JobOnRedis

NAMED = {JobOnDisk: "crawls/site", JobOnRedis: "redis://:secret@nowhere/0#site"}
AFTER = {
    "backup": ["copy"], "collect": ["out"],
    "pause": ["--slot=x"], "resume": ["--slot=x"],
}  # fmt: skip

LACKING = [
    (verb.name, engine)
    for verb in VERBS
    for engine in ENGINES
    if verb.needs is not None and not verb.runs_on(engine)
]


@pytest.mark.parametrize(("verb", "engine"), LACKING)
def test_a_verb_without_its_operation_is_refused_and_the_rest_named(
    verb: str,
    engine: type[Job],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [NAMED[engine], *AFTER.get(verb, [])]
    answer = run(capsys, verb, *words)
    assert answer.code == 2
    assert f"{engine.kind} does not have this verb: expected" in answer.err
    named = answer.err.rpartition(" are ")[2].strip().split(", ")
    assert named == [one.name for one in VERBS if one.runs_on(engine)]
    assert "secret" not in answer.err
    assert not [*tmp_path.iterdir()]


def test_some_verbs_are_lacking_on_each_engine() -> None:
    assert {engine for _, engine in LACKING} == set(ENGINES)


def test_an_operation_is_there_as_soon_as_an_engine_defines_it() -> None:
    class WithJobdir(JobOnRedis):
        @property
        def jobdir(self) -> str:
            return ""

    assert not JobOnRedis.has("jobdir")
    assert WithJobdir.has("jobdir")
    assert JobOnDisk.has("directory")
    assert not JobOnRedis.has("directory")


def test_every_url_is_on_redis_and_anything_else_on_disk() -> None:
    for url in ("redis://a/0#b", "rediss://a/0#b", "unix:///a?db=0#b", "http://a/"):
        assert isinstance(open_job(url), JobOnRedis)
    for path in ("crawls/site", "redis"):
        assert isinstance(open_job(path), JobOnDisk)
