"""The documents show real output, and every name in them exists."""

from __future__ import annotations

import ast
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from spiders.paused import paused_at
from support.jobs import run_script
from support.ports import kept_port
from support.project import clone_in
from support.redis_server import RedisServer
from support.shared_data import REPOSITORY
from support.waiting import DEADLINE, until

from bloomdupe import errors
from bloomdupe.settings import DEFAULTS

PACKAGE = REPOSITORY / "bloomdupe"
DOCS = PACKAGE / "docs"
README = REPOSITORY / "README.md"
TUTORIAL = DOCS / "tutorial.md"
DOCUMENTS = [
    README,
    *sorted(
        path
        for folder in ("bloomdupe", "crawler", "tests")
        for path in (REPOSITORY / folder).rglob("*.md")
    ),
]
WITH_GITHUBS = [*DOCUMENTS, *sorted((REPOSITORY / ".github").rglob("*.md"))]
"""Also those that GitHub shows."""
TEXTS = {path: path.read_text(encoding="utf-8") for path in WITH_GITHUBS}

BINARIES = Path(sys.executable).parent
LOCAL_REDIS = "redis://localhost:6379/0"
"""The address of Redis in the documents; the tests start a server of their own."""
OF_THE_TESTS = {"BLOOMDUPE_TEST_ALL"}
"""Environment variables that look like settings."""
NOT_IN_EVERY_CRAWL = {
    "bloomdupe/dropped_blocked",
    "bloomdupe/dropped_page_limit",
    "bloomdupe/dropped_pending_limit",
    "bloomdupe/refused",
    "bloomdupe/retries_not_counted",
    "bloomdupe/revisits",
    "bloomdupe/slot_backoffs",
}

FLAGS = re.DOTALL | re.MULTILINE
FENCED = re.compile(r"^```.*?^```", FLAGS)
OUTPUT = re.compile(r"<!-- output: (bloomdupe .*?) -->\n```text\n(.*?)```", re.DOTALL)
TRANSCRIPT = re.compile(r"<!-- transcript -->\n```text\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"\d[\d,.]*(?:e-?\d+)?")
PROGRESS = re.compile(r"^[A-Z].*: # of # [A-Za-z]+\n", re.MULTILINE)
"""A masked line that is only printed if a task takes more than a second."""


def name_of(document: Path) -> str:
    return str(document.relative_to(REPOSITORY))


PROGRAMS = [
    pytest.param(match[1], id=f"{name_of(path)}:{text[: match.start()].count(chr(10))}")
    for path, text in TEXTS.items()
    if REPOSITORY / "tests" not in path.parents or path.name == "reports.md"
    for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
    if "ADDONS" not in match[1] and path != TUTORIAL
]
TRANSCRIPTS = [
    path for path, text in TEXTS.items() if TRANSCRIPT.search(text) and path != TUTORIAL
]
OUTPUTS = [match for text in TEXTS.values() for match in OUTPUT.findall(text)]


def shown(marker: str, language: str) -> str:
    """Return the block of the README under a marker."""
    found = re.search(
        rf"<!-- {marker} -->\n```{language}\n(.*?)```", TEXTS[README], re.DOTALL
    )
    assert found is not None, marker
    return found[1]


def rows_of(document: Path, pattern: str) -> list[Any]:
    return re.findall(rf"^\| {pattern}", TEXTS[document], re.MULTILINE)


def output_of(command: str) -> str:
    """Run a command of the console script; return it with its output."""
    return f"$ {command}\n{run(REPOSITORY, command).stdout}"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return clone_with_venv(tmp_path)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clone in which the sample site was crawled, as the README shows it."""
    clone = clone_with_venv(tmp_path_factory.mktemp("crawled"))
    done = run(clone, "scrapy crawl site")
    assert done.returncode == 0, done.stderr
    for line in shown("output: crawl", "text").splitlines():
        assert line in done.stderr
    return clone


def clone_with_venv(folder: Path) -> Path:
    (folder / ".venv").symlink_to(BINARIES.parent)
    return clone_in(folder)


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the shell in a clone."""
    path = os.pathsep.join([str(BINARIES), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


# The documents show real output


@pytest.mark.parametrize("code", PROGRAMS)
def test_snippets_run(
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    if LOCAL_REDIS in code:
        server = RedisServer(tmp_path)
        request.addfinalizer(server.kill)
        server.start()
        code = code.replace(LOCAL_REDIS, f"unix://{server.socket}")
    tree = ast.parse(code)
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    exec(compile(tree, "snippet", "exec"), {})  # noqa: S102 - our own


@pytest.mark.parametrize(("command", "block"), OUTPUTS)
def test_documents_show_the_real_output(command: str, block: str) -> None:
    assert block == output_of(command)


def masked(text: str) -> str:
    """Leave out the parts that vary: numbers, and the blanks around them."""
    lines = NUMBER.sub("#", text).splitlines()
    return "".join(" ".join(line.split()) + "\n" for line in lines)


def as_pattern(block: str) -> str:
    """Turn a block into an expression; a line ``...`` stands for any lines."""
    return "".join(
        "(?:.*\n)*" if line == "..." else re.escape(line + "\n")
        for line in masked(block).splitlines()
    )


def check_transcript(block: str, folder: Path) -> None:
    """Run the commands of a block; compare their output with the block."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        done = run(folder, command)
        found = masked(done.stdout + PROGRESS.sub("", masked(done.stderr)))
        assert re.fullmatch(as_pattern(output), found), f"$ {command}\n{found}"


@pytest.mark.slow
@pytest.mark.parametrize("document", TRANSCRIPTS, ids=name_of)
def test_transcripts_show_real_output(document: Path, crawled: Path) -> None:
    """In a clone in which the sample site was crawled, one after the other."""
    for block in TRANSCRIPT.findall(TEXTS[document]):
        check_transcript(block, crawled)


TUTORIALS_STEP = re.compile(
    r"<!-- file: (\S+) -->\n```python\n(.*?)```"
    r"|<!-- transcript -->\n```text\n(.*?)```|^```sh\ncd (\w+)\n```",
    FLAGS,
)


@pytest.mark.slow
def test_the_tutorial_can_be_followed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Word for word, but for the port, which another test may have."""
    shops_port = kept_port()
    text = TEXTS[TUTORIAL].replace(":8000", f":{shops_port}")
    text = text.replace("8000)", f"{shops_port})")
    folder = tmp_path
    for file, content, block, entered in TUTORIALS_STEP.findall(text):
        if file:
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as script:
                script.write(content)
        elif entered:
            folder = tmp_path / entered
            site = subprocess.Popen([sys.executable, tmp_path / "shop_site.py"])
            request.addfinalizer(site.wait)
            request.addfinalizer(site.kill)
            until(lambda: answers(shops_port))
        else:
            check_transcript(block, folder)
    assert folder != tmp_path


def answers(port: int) -> bool:
    """Whether a server listens at a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("localhost", port)) == 0


def test_the_output_in_the_readme_is_that_of_the_tutorial() -> None:
    shown_lines = shown("of the tutorial", "text").splitlines()
    run_lines = {*"".join(TRANSCRIPT.findall(TEXTS[TUTORIAL])).splitlines()}
    assert len(shown_lines) > 5
    assert run_lines.issuperset(shown_lines)


@pytest.mark.slow
def test_the_script_prints_the_documented_output(clone: Path) -> None:
    done = run(clone, paused(shown("script", "sh")))
    alone, killed = done.stdout.splitlines()
    assert alone == killed
    assert done.stdout == shown("output: script", "text")
    # Each kill struck in the middle of the crawl, which the next run has seen.
    assert done.stderr.count("Killed") == 3
    assert done.stderr.count("; the last run was killed") == 3


def paused(script: str) -> str:
    """Let each crawl that is to be killed wait for it, if it has come far enough.

    So it has not ended by then, nor fetched the pages for which the next kill waits.
    """
    options = shlex.join(paused_at("PAGES")).replace("PAGES", "$((pages + 400))")
    found = script.replace("killed &", f"killed {options} &")
    assert found != script
    return f"export PYTHONPATH={REPOSITORY / 'tests'}\n{found}"


# The tables are complete, and name nothing else


def test_every_setting_is_documented() -> None:
    rows = rows_of(DOCS / "settings.md", r"`(BLOOMDUPE_\w+)` \| `(.*?)` \|")
    assert len(rows) == len(DEFAULTS)
    assert {name: ast.literal_eval(value) for name, value in rows} == DEFAULTS


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_settings_that_are_named_exist(document: Path) -> None:
    named = {*re.findall(r"\bBLOOMDUPE_[A-Z_]+\b", TEXTS[document])}
    assert named <= DEFAULTS.keys() | OF_THE_TESTS


def test_every_error_is_documented() -> None:
    rows = rows_of(DOCS / "troubleshooting.md", r"`(\w+Error)`")
    assert sorted([*rows, "BloomDupeError"]) == sorted(
        name for name, one in vars(errors).items() if isinstance(one, type)
    )


def test_every_stat_is_documented(clone: Path) -> None:
    # One page at a time, so that the pages are the same in each crawl.
    settings = ("BLOOMDUPE_EXACT=1", "-s", "CONCURRENT_REQUESTS=1", "-s")
    for pages in (2, 100):
        limit = f"CLOSESPIDER_PAGECOUNT={pages}"
        crawl = ("crawl", "site", "-s", *settings, limit)
        done = run_script(clone, "scrapy", *crawl)
        assert done.returncode == 0, done.stderr
    found = re.findall(r"'(bloomdupe/\w+)':", done.stderr)
    rows = rows_of(DOCS / "stats.md", r"`(bloomdupe/\w+)` \|")
    assert sorted(rows) == sorted({*found, *NOT_IN_EVERY_CRAWL})


def test_every_verb_is_documented() -> None:
    verbs = re.findall(r"^    (\w+)  ", output_of("bloomdupe --help"), re.MULTILINE)
    assert verbs
    assert rows_of(DOCS / "command-line.md", r"`bloomdupe (\w+)[^`]*` \|") == verbs


# Reading


def test_the_documents_for_users_stay_short() -> None:
    assert len(TEXTS[README].split()) <= 900
    words = sum(len(TEXTS[path].split()) for path in TEXTS if PACKAGE in path.parents)
    assert words <= 15_000


def anchors_of(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", TEXTS[document]), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("document", WITH_GITHUBS, ids=name_of)
def test_links_within_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", TEXTS[document]))
    for link in links:
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), target
        assert not anchor or anchor in anchors_of(target), f"{target}#{anchor}"
