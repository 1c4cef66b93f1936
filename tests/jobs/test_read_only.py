"""A job on media that cannot be written, or of another user.

On such media, verbs that only read work, and the rest refuse. The store of another user
is refused by all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.jobs import Answer, make_job
from support.waiting import DEADLINE

READING = {
    "info": [],
    "list": [],
    "check": ["https://a.example/1"],
    "verify": [],
}
CHANGING = {
    "add": ["https://new.example/"],
    "drop": ["--pattern", "."],
    "requeue": ["https://a.example/1"],
    "block": ["--slot", "a.example"],
    "reset": ["--yes"],
}
OTHERS = {
    **READING,
    **CHANGING,
    "backup": ["copy"],
    "report": ["-o", "-"],
    "stop": [],
    "top": [],
}
NOBODY = 65534
MOUNT = 'mount --bind "$0" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


PROGRAM = """
import contextlib, importlib, io, json, os, pkgutil, sys
import bloomdupe
from bloomdupe.cli.main import main
for module in pkgutil.walk_packages(bloomdupe.__path__, "bloomdupe."):
    with contextlib.suppress(ImportError):  # its package is not installed
        importlib.import_module(module.name)  # the other user may not read them
os.seteuid(int(sys.argv[2]))
answers = {}
for name, arguments in json.loads(sys.argv[1]).items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([name, *arguments])
    answers[name] = code, out.getvalue(), err.getvalue()
print(json.dumps(answers))
"""


def needs_root() -> None:
    if os.geteuid() or shutil.which("unshare") is None:
        reason = "needs root, and unshare"
        if os.environ.get("BLOOMDUPE_TEST_ALL"):
            pytest.fail(reason)
        pytest.skip(reason)


def call_all(
    folder: Path, verbs: dict[str, list[str]], user: int, *before: str
) -> dict[str, Answer]:
    done = subprocess.check_output(
        [*before, sys.executable, "-c", PROGRAM, json.dumps(verbs), str(user)],
        cwd=folder,
        timeout=DEADLINE,
    )
    return {name: Answer(*answer) for name, answer in json.loads(done).items()}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    """Call all verbs in a place that was mounted read-only for them."""
    needs_root()
    folder = tmp_path_factory.mktemp("media")
    make_job(folder / "job", [f"https://a.example/{n}" for n in range(10)])
    (folder / "media").mkdir()
    mounted = ["unshare", "-m", "sh", "-c", MOUNT, "../job", "../media"]
    verbs = {
        name: ["../media", *arguments]
        for name, arguments in {**READING, **CHANGING}.items()
    }
    return call_all(folder / "media", verbs, 0, *mounted)


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


# A job of another user


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    """Call all verbs as another user."""
    needs_root()
    folder = tmp_path_factory.mktemp("jobs")
    folder.chmod(0o755)
    make_job(folder / "job", ["https://a.example/1"])
    (folder / "private").mkdir(0o700)
    verbs = {name: ["job", *arguments] for name, arguments in OTHERS.items()}
    all_of_them = call_all(folder, {"info": ["."]}, NOBODY)["info"]
    return {**call_all(folder, verbs, NOBODY), "the directory": all_of_them}


@pytest.mark.parametrize("name", OTHERS)
def test_the_job_of_another_user_is_refused(
    refusals: dict[str, Answer], name: str
) -> None:
    assert (refusals[name].code, refusals[name].out) == (1, "")
    assert "Permission denied" in refusals[name].err
    assert "look at its owner and its permissions\n" in refusals[name].err
    assert refusals[name].err.count("\n") == 1


def test_the_job_of_another_user_is_listed(refusals: dict[str, Answer]) -> None:
    assert refusals["the directory"].code == 1
    assert "job  cannot be read" in refusals["the directory"].out
