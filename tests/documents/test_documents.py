"""What the documents show is what happens, and what they name is there.

``python tests/documents/test_documents.py`` writes the present output of commands whose
output never changes by itself (``<!-- output: bloomdupe ... -->``) into them.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import scrapy
from support.redis_server import RedisServer

import bloomdupe
from bloomdupe import errors
from bloomdupe.settings import DEFAULTS

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "bloomdupe"
README = REPOSITORY / "README.md"
DOCUMENTS = [
    README,
    *sorted(
        path
        for folder in ("bloomdupe", "crawler", "tests")
        for path in (REPOSITORY / folder).rglob("*.md")
    ),
]
TEXTS = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS}

BINARIES = Path(sys.executable).parent
SITE_PACKAGES = Path(scrapy.__file__).parents[1]
"""Some files that are named are Scrapy's."""
LOCAL_REDIS = "redis://localhost:6379/0"
"""Where the documents have a Redis; the tests start one of their own."""
DEADLINE = 300  # seconds; only a broken test gets there
MOST_LINES = 300
"""Of the first document that a stranger reads."""
OF_THE_TESTS = {"BLOOMDUPE_TEST_ALL", "BLOOMDUPE_CRASH_CRAWLS"}
"""Environment variables, which look like settings."""
NOT_IN_EVERY_CRAWL = {
    "bloomdupe/dropped_again",
    "bloomdupe/dropped_blocked",
    "bloomdupe/dropped_page_limit",
    "bloomdupe/dropped_pending_limit",
    "bloomdupe/items_unchanged",
    "bloomdupe/refused",
    "bloomdupe/retries_not_counted",
    "bloomdupe/revisits",
    "bloomdupe/revisits_changed",
    "bloomdupe/revisits_failed",
    "bloomdupe/revisits_unchanged",
    "bloomdupe/slot_rests",
}

FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(
    r"(<!-- output: (bloomdupe .*?) -->\n```text\n)(.*?)(```)", re.DOTALL
)
TRANSCRIPT = re.compile(r"<!-- transcript -->\n```text\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"\d[\d,.]*(?:e-?\d+)?")


class Snippet(NamedTuple):
    """Python that a document shows."""

    document: Path
    line: int
    code: str


def name_of(document: Path) -> str:
    return str(document.relative_to(REPOSITORY))


def snippet_name(snippet: Snippet) -> str:
    return f"{name_of(snippet.document)}:{snippet.line}"


SNIPPETS = [
    Snippet(path, text[: match.start()].count("\n") + 1, match[1])
    for path, text in TEXTS.items()
    for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
]
PROGRAMS = [snippet for snippet in SNIPPETS if "ADDONS" not in snippet.code]
TRANSCRIPTS = [path for path, text in TEXTS.items() if TRANSCRIPT.search(text)]
OUTPUTS = [match for text in TEXTS.values() for match in OUTPUT.findall(text)]


def shown(marker: str, language: str) -> str:
    """Return the block of the README under a marker."""
    found = re.search(
        rf"<!-- {marker} -->\n```{language}\n(.*?)```", TEXTS[README], re.DOTALL
    )
    assert found is not None, marker
    return found[1]


def rows_of(document: Path, pattern: str) -> list[str]:
    return re.findall(rf"^\| {pattern}", TEXTS[document], re.MULTILINE)


def output_of(command: str) -> str:
    """Run a command of the console script; return it with what it prints."""
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [BINARIES / program, *arguments], capture_output=True, text=True, check=True
    )
    return f"$ {command}\n{done.stdout}"


def clone_in(folder: Path) -> Path:
    """Make a folder like a clone of the repository with everything installed."""
    shutil.copy(REPOSITORY / "scrapy.cfg", folder)
    (folder / "crawler").symlink_to(REPOSITORY / "crawler")
    (folder / ".venv").symlink_to(BINARIES.parent)
    return folder


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return clone_in(tmp_path)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a clone in which the sample site was crawled, and the log of that."""
    clone = clone_in(tmp_path_factory.mktemp("crawled"))
    done = run(clone, "scrapy crawl site")
    assert done.returncode == 0, done.stderr
    return clone, done.stderr


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


# What is shown is what happens


@pytest.mark.parametrize("snippet", PROGRAMS, ids=snippet_name)
def test_snippets_run(
    snippet: Snippet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "_parallel_asyncio" in snippet.code:
        pytest.importorskip("scrapy.utils.asyncio", reason="from Scrapy 2.14 on")
    code = snippet.code
    if LOCAL_REDIS in code:
        server = RedisServer(tmp_path)
        request.addfinalizer(server.kill)
        server.start()
        code = code.replace(LOCAL_REDIS, f"unix://{server.socket}")
    tree = ast.parse(code)
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    exec(compile(tree, snippet_name(snippet), "exec"), {})  # noqa: S102 - our own


def test_all_snippets_are_found() -> None:
    places = [name_of(snippet.document) for snippet in PROGRAMS]
    assert places.count("bloomdupe/filter/README.md") == 6  # itself, and five uses
    assert places.count("bloomdupe/links/README.md") == 2
    assert places.count("bloomdupe/redis/README.md") == 2
    assert places.count("bloomdupe/inside_scrapy/README.md") == 1


def test_the_three_lines_of_settings_are_settings() -> None:
    (snippet,) = (snippet for snippet in SNIPPETS if snippet not in PROGRAMS)
    given: dict[str, object] = {}
    exec(snippet.code, {}, given)  # noqa: S102 - our own
    assert given.keys() - DEFAULTS.keys() == {"ADDONS", "JOBDIR"}
    assert given["ADDONS"] == {"bloomdupe.Addon": 500}


@pytest.mark.parametrize(("head", "command", "block", "tail"), OUTPUTS)
def test_outputs_are_shown_as_they_are(
    head: str, command: str, block: str, tail: str
) -> None:
    assert head
    assert tail
    assert block == output_of(command)


def test_the_crawl_prints_what_is_shown(crawled: tuple[Path, str]) -> None:
    clone, log = crawled
    for line in shown("output: crawl", "text").splitlines():
        assert line in log.replace(f"{clone}/", "")


def masked(text: str) -> str:
    """Leave out what differs from run to run: numbers, and the blanks around them."""
    lines = NUMBER.sub("#", text).splitlines()
    return "".join(" ".join(line.split()) + "\n" for line in lines)


def as_pattern(block: str) -> str:
    """Turn a block into an expression; a line ``...`` stands for any lines."""
    return "".join(
        "(?:.*\n)*" if line == "..." else re.escape(line + "\n")
        for line in masked(block).splitlines()
    )


@pytest.mark.slow
@pytest.mark.parametrize("document", TRANSCRIPTS, ids=name_of)
def test_transcripts_show_what_happens(
    document: Path, crawled: tuple[Path, str]
) -> None:
    """In a clone in which the sample site was crawled, one after the other."""
    clone, _ = crawled
    for block in TRANSCRIPT.findall(TEXTS[document]):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            done = run(clone, command)
            found = masked(done.stdout + done.stderr)
            assert re.fullmatch(as_pattern(output), found), f"$ {command}\n{found}"


def test_a_transcript_that_is_wrong_is_found() -> None:
    """The control of the test above."""
    found = masked("store  a\nfree: 17 of 1,024\nAll is well.\n")
    assert re.fullmatch(as_pattern("store a\n...\nAll is well.\n"), found)
    assert re.fullmatch(as_pattern("store a\nfree: 5 of 9\nAll is well.\n"), found)
    assert not re.fullmatch(as_pattern("store a\nAll is well.\n"), found)
    assert not re.fullmatch(as_pattern("store a\n...\nAll is lost.\n"), found)


def test_the_script_prints_what_is_shown(clone: Path) -> None:
    done = run(clone, shown("script", "sh"))
    alone, killed = done.stdout.splitlines()
    assert alone == killed
    assert done.stdout == shown("output: script", "text")
    # Each kill struck in the middle of the crawl, which the next run has seen.
    assert done.stderr.count("Killed") == 3
    assert done.stderr.count("; the last run was killed") == 3


@pytest.mark.slow
def test_without_the_plugin_the_script_prints_something_else(clone: Path) -> None:
    """The control of the test above; the README says so, too."""
    assert "With `-s ADDONS={}` in the first line" in TEXTS[README]
    script = shown("script", "sh")
    stock = script.replace("crawl site", "crawl site -s ADDONS={}", 1)
    assert stock != script
    stock = stock.replace("1 500 1000", "500")  # the first kill is enough
    alone, killed = run(clone, stock).stdout.splitlines()
    assert alone != killed


# What there is stands in its table, and nothing else


def test_every_setting_stands_in_the_table() -> None:
    rows = re.findall(
        r"^\| `(BLOOMDUPE_\w+)` \| `(.*?)` \|", TEXTS[README], re.MULTILINE
    )
    assert len(rows) == len(DEFAULTS)
    assert {name: ast.literal_eval(value) for name, value in rows} == DEFAULTS


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_settings_that_are_named_exist(document: Path) -> None:
    named = set(re.findall(r"\bBLOOMDUPE_[A-Z_]+\b", TEXTS[document]))
    assert named <= DEFAULTS.keys() | OF_THE_TESTS


def test_every_error_stands_in_the_table() -> None:
    rows = rows_of(PACKAGE / "README.md", r"`(\w+Error)`")
    assert sorted([*rows, "BloomDupeError"]) == sorted(errors.__all__)


def test_every_stat_stands_in_the_table(clone: Path) -> None:
    crawl = "scrapy crawl site -s BLOOMDUPE_CONFIRM=1 -s CLOSESPIDER_PAGECOUNT"
    run(clone, f"{crawl}=2")
    found = re.findall(r"'(bloomdupe/\w+)':", run(clone, f"{crawl}=100").stderr)
    rows = rows_of(PACKAGE / "crawl" / "README.md", r"`(bloomdupe/\w+)` \|")
    assert sorted(rows) == sorted({*found, *NOT_IN_EVERY_CRAWL})


def test_every_verb_stands_in_the_table() -> None:
    verbs = re.findall(r"^    (\w+)  ", output_of("bloomdupe --help"), re.MULTILINE)
    assert verbs
    assert rows_of(README, r"`bloomdupe (\w+)[^`]*` \|") == verbs


def test_every_room_stands_in_the_table() -> None:
    rooms = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    assert sorted(rows_of(PACKAGE / "README.md", r"\[?`(\w+)/`")) == sorted(rooms)


@pytest.mark.parametrize(
    ("room", "document"),
    [("crawl", PACKAGE), ("inside_scrapy", PACKAGE / "inside_scrapy")],
)
def test_every_module_stands_in_the_table(room: str, document: Path) -> None:
    rows = rows_of(document / "README.md", r"((?:`\w+(?:\.py)?`(?:, )?)+) \|")
    named = {name for row in rows for name in re.findall(r"`(\w+?)(?:\.py)?`", row)}
    modules = {path.stem for path in (PACKAGE / room).glob("*.py")}
    assert modules - {"__init__"} <= named


def test_every_folder_of_tests_stands_in_the_table() -> None:
    tests = REPOSITORY / "tests"
    folders = {path.parent.name for path in tests.glob("*/*.py")}
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders - rooms <= {*rows_of(tests / "README.md", r"\[?`(\w+)/`")}


# Reading


def test_the_readme_can_be_read() -> None:
    assert len(TEXTS[README].splitlines()) <= MOST_LINES


def links_of(document: Path) -> list[tuple[Path, str]]:
    """Return where a document's links within the repository lead: file and anchor."""
    links = re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", TEXTS[document]))
    targets = []
    for link in links:
        if not re.match(r"\w+:", link):
            path, _, anchor = link.partition("#")
            target = (document.parent / path).resolve() if path else document
            targets.append((target, anchor))
    return targets


def anchors_of(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", TEXTS[document]), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_within_lead_somewhere(document: Path) -> None:
    for target, anchor in links_of(document):
        assert target.exists(), target
        assert not anchor or anchor in anchors_of(target), f"{target}#{anchor}"


def test_every_document_is_reached_from_the_readme() -> None:
    reached = [README]
    for document in reached:
        for target, _ in links_of(document):
            if target in TEXTS and target not in reached:
                reached.append(target)
    assert set(reached) == set(DOCUMENTS)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_files_that_are_named_are_there(document: Path) -> None:
    named = re.findall(r"[\w.-]+(?:/[\w.-]+)*/[\w-]+\.py\b", TEXTS[document])
    for name in named:
        if not name.startswith("PATH/"):  # it is the reader's
            places = (REPOSITORY, document.parent, SITE_PACKAGES)
            assert any((place / name).exists() for place in places), name


def test_the_package_brings_its_documents() -> None:
    installed = Path(bloomdupe.__file__).parent
    assert {path.relative_to(installed) for path in installed.rglob("*.md")} == {
        path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.md")
    }


if __name__ == "__main__":
    for path, text in TEXTS.items():
        path.write_text(
            OUTPUT.sub(lambda match: match[1] + output_of(match[2]) + match[4], text),
            encoding="utf-8",
        )
