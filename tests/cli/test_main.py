from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support.jobs import PROJECT, Verb, as_project, run_script
from support.project import clone_in

from bloomdupe import BloomFilter
from bloomdupe.cli.main import VERBS, build_parser, main
from bloomdupe.cli.showing import amount
from bloomdupe.cli.verbs import DISK

KEY = bytes(16)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Return a JOBDIR with a store of 2,500 keys."""
    store = tmp_path / "job" / "bloomdupe"
    with BloomFilter.open(
        store, 2000, 1e-2, exact=True, identity={"spider": "site"}, key=KEY
    ) as seen:
        seen.update(str(number) for number in range(2500))
    return tmp_path / "job"


# size


def test_size_answers_the_questions_of_the_literature(verb: Verb) -> None:
    code, out, _ = verb("size", "--urls", "10M", "--fpp", "1e-2", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["bits_per_key_optimal"] == pytest.approx(9.585, abs=1e-3)
    assert report["fpp_calculated"] <= 1e-2
    assert report["memory_bytes"] >= report["disk_bytes"] == report["blocks"] * 8168


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10_000", 10_000),
        ("1.5M", 1_500_000),
        ("2 g", 2 * 10**9),
    ],
)
def test_amounts(text: str, number: int) -> None:
    assert amount(text) == number


# Stores


@pytest.mark.parametrize("inside", ["", "bloomdupe"])
def test_info_takes_a_jobdir_or_a_store(verb: Verb, job: Path, inside: str) -> None:
    before = (job / "bloomdupe/data.mdb").read_bytes()
    code, out, _ = verb("info", job / inside, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["identity"] == {"spider": "site"}
    assert report["keys"] == report["exact_keys"] == 2500
    assert len(report["layers"]) == 2
    code, out, _ = verb("info", job / inside)
    assert "made for spider" in out
    assert "exact keys" in out
    assert (job / "bloomdupe/data.mdb").read_bytes() == before


ON_REDIS = "redis://:secret@localhost:1/0#site"
AFTER = {"backup": ["copy"]}


@pytest.mark.parametrize("name", [v.name for v in VERBS.values() if v.on == DISK])
def test_a_verb_that_a_crawl_on_redis_lacks_is_refused(
    verb: Verb, tmp_path: Path, name: str
) -> None:
    code, _, err = verb(name, ON_REDIS, *AFTER.get(name, []))
    assert code == 2
    assert " does not have this verb: expected a JOBDIR" in err
    assert "secret" not in err
    assert not [*tmp_path.iterdir()]


# As a user calls it, who knows nothing but `--help`


@pytest.mark.parametrize("name", VERBS)
def test_help_has_an_example_that_can_be_called(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    example = VERBS[name].example
    assert f"Example: bloomdupe {' '.join(example.split())}" in out
    assert "--json" in out
    options = build_parser().parse_args(shlex.split(example))
    assert options.verb == name


def test_options_may_come_between_a_store_and_urls() -> None:
    words = ["check", "job", "--json", "https://a.example/", "--from", "-"]
    options = build_parser().parse_args([*words, "https://b.example/"])
    assert options.urls == ["https://a.example/", "https://b.example/"]
    assert options.store == "job"


def test_the_scrapy_command_knows_the_jobdir(job: Path, tmp_path: Path) -> None:
    clone_in(tmp_path)
    words = ("scrapy", "bloomdupe", "info")
    done = run_script(tmp_path, *words, job, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["capacity"] == 2000
    shown = run_script(tmp_path, "scrapy").stdout
    assert "look after the stores of crawls" in shown
    done = run_script(tmp_path, *words, "nowhere")
    assert done.returncode == 1
    assert "nowhere: there is no bloomdupe store" in done.stderr


@pytest.mark.usefixtures("job")
def test_a_jobdir_for_each_spider_is_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    as_project(f"import pathlib\n{PROJECT}JOBDIR = pathlib.Path('%(spider)s')\n")
    help_, *answers = (
        run_script(tmp_path, "scrapy", "bloomdupe", *words)
        for words in (
            ("info", "--help"),
            ("info",),
            ("add", "%(spider)s", "data:,x", "--spider", "site"),
            ("add", "none/%(spider)s", "data:,x", "--spider", "site"),
        )
    )
    assert "(default: %(spider)s)" in help_.stdout
    hints = [", but `bloomdupe info .` shows 1 job"] * 2 + [""]
    for answer, hint in zip(answers, hints, strict=True):
        assert answer.returncode == 1
        assert f"%(spider)s: there is no bloomdupe store{hint}\n" in answer.stderr
        assert answer.stderr.count("\n") == 1
    assert not Path("%(spider)s").exists()
