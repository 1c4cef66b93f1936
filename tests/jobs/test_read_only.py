"""A job on media that cannot be written: verbs that only read work, the rest refuse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from support.jobs import Answer, make_job
from support.waiting import DEADLINE

READING = {
    "info": [],
    "list": [],
    "check": ["https://a.example/1"],
    "export": ["../export"],
    "verify": [],
}
CHANGING = {
    "add": ["https://new.example/"],
    "drop": ["--pattern", "."],
    "requeue": ["https://a.example/1"],
    "block": ["--slot", "a.example"],
    "import": ["/dev/null"],
    "union": ["../job"],
    "reset": ["--yes"],
    "compact": [],
}
MOUNT = 'mount --bind "$0" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


PROGRAM = """
import contextlib, io, json, sys
from bloomdupe.cli.main import main
answers = {}
for name, arguments in json.loads(sys.argv[1]).items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([name, "../media", *arguments])
    answers[name] = code, out.getvalue(), err.getvalue()
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    """Call all verbs in a place that was mounted read-only for them."""
    folder = tmp_path_factory.mktemp("media")
    make_job(folder / "job", [f"https://a.example/{n}" for n in range(10)])
    (folder / "media").mkdir()
    if os.geteuid() or shutil.which("unshare") is None:
        reason = "needs root, and unshare"
        if os.environ.get("BLOOMDUPE_TEST_ALL"):
            pytest.fail(reason)
        pytest.skip(reason)
    mounted = ["unshare", "-m", "sh", "-c", MOUNT, "../job", "../media"]
    verbs = json.dumps({**READING, **CHANGING})
    done = subprocess.check_output(
        [*mounted, sys.executable, "-c", PROGRAM, verbs],
        cwd=folder / "media",
        timeout=DEADLINE,
    )
    return {name: Answer(*answer) for name, answer in json.loads(done).items()}


@pytest.mark.parametrize("name", READING)
def test_verbs_that_only_read_work(answers: dict[str, Answer], name: str) -> None:
    assert (answers[name].code, answers[name].err) == (0, "")


@pytest.mark.parametrize("name", CHANGING)
def test_verbs_that_change_something_are_refused(
    answers: dict[str, Answer], name: str
) -> None:
    assert (answers[name].code, answers[name].out) == (1, "")
    assert "Read-only file system" in answers[name].err
    assert answers[name].err.count("\n") == 1
