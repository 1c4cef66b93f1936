"""What the README shows is what happens.

``python tests/test_readme.py`` writes the present output of its commands into it.
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

import pytest

from bloomdupe import errors
from bloomdupe.settings import DEFAULTS

REPOSITORY = Path(__file__).resolve().parent.parent
README = REPOSITORY / "README.md"
TEXT = README.read_text(encoding="utf-8")

SNIPPETS = [
    snippet
    for snippet in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    if "ADDONS" not in snippet
]
OUTPUT = re.compile(
    r"(<!-- output: (bloomdupe .*?) -->\n```text\n)(.*?)(```)", re.DOTALL
)


def output_of(command: str) -> str:
    """Run a command of the console script; return it with what it prints."""
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "88"},
    )
    return f"$ {command}\n{done.stdout}"


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippets_run(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = compile(SNIPPETS[number], f"README snippet {number}", "exec")
    assert any(
        isinstance(node, ast.Assert) for node in ast.walk(ast.parse(SNIPPETS[number]))
    )
    exec(code, {})  # noqa: S102 (our own README)


def test_there_are_as_many_snippets_as_uses() -> None:
    assert len(SNIPPETS) == 7


@pytest.mark.parametrize("command", [match[1] for match in OUTPUT.findall(TEXT)])
def test_outputs_are_shown_as_they_are(command: str) -> None:
    (shown,) = (match[2] for match in OUTPUT.findall(TEXT) if match[1] == command)
    # argparse breaks lines differently from version to version.
    assert shown.split() == output_of(command).split()


def test_the_crawl_prints_what_is_shown(tmp_path: Path) -> None:
    shown = re.search(r"<!-- output: crawl -->\n```text\n(.*?)```", TEXT, re.DOTALL)
    assert shown is not None
    shutil.copy(REPOSITORY / "scrapy.cfg", tmp_path)
    (tmp_path / "crawler").symlink_to(REPOSITORY / "crawler")
    done = subprocess.run(
        [Path(sys.executable).with_name("scrapy"), "crawl", "site"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    log = done.stderr.replace(f"{tmp_path}/", "")
    for line in shown[1].splitlines():
        assert line in log


def test_the_script_prints_what_is_shown(tmp_path: Path) -> None:
    script = re.search(r"<!-- script -->\n```sh\n(.*?)```", TEXT, re.DOTALL)
    shown = re.search(r"<!-- output: script -->\n```text\n(.*?)```", TEXT, re.DOTALL)
    assert script is not None
    assert shown is not None
    shutil.copy(REPOSITORY / "scrapy.cfg", tmp_path)
    (tmp_path / "crawler").symlink_to(REPOSITORY / "crawler")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    program = Path(sys.executable).with_name("scrapy")
    (tmp_path / ".venv" / "bin" / "scrapy").symlink_to(program)
    done = subprocess.run(
        ["bash", "-c", script[1]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == shown[1]
    alone, killed = done.stdout.splitlines()
    assert alone == killed
    assert done.stderr.count("Killed") == 3


def test_every_setting_stands_in_the_table() -> None:
    rows = re.findall(r"^\| `(BLOOMDUPE_\w+)` \| `(.*?)` \|", TEXT, re.MULTILINE)
    assert {name: ast.literal_eval(value) for name, value in rows} == DEFAULTS


def test_every_error_stands_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+Error)`", TEXT, re.MULTILINE)
    assert sorted([*rows, "BloomDupeError"]) == sorted(errors.__all__)


def test_links_within_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
    assert set(re.findall(r"\]\(#(.*?)\)", TEXT)) <= anchors


if __name__ == "__main__":
    README.write_text(
        OUTPUT.sub(lambda match: match[1] + output_of(match[2]) + match[4], TEXT),
        encoding="utf-8",
    )
