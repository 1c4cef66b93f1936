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


def test_on_media_that_cannot_be_written_verbs_that_only_read_work(
    tmp_path: Path,
) -> None:
    """They are mounted read-only for the verbs."""
    needs_root()
    make_job(tmp_path / "job", [f"https://a.example/{n}" for n in range(10)])
    (tmp_path / "media").mkdir()
    mounted = ["unshare", "-m", "sh", "-c", MOUNT, "../job", "../media"]
    verbs = {
        name: ["../media", *arguments]
        for name, arguments in {**READING, **CHANGING}.items()
    }
    answers = call_all(tmp_path / "media", verbs, 0, *mounted)
    for name in READING:
        assert (answers[name].code, answers[name].err) == (0, ""), name
    for name in CHANGING:
        assert (answers[name].code, answers[name].out) == (1, ""), name
        assert "Read-only file system" in answers[name].err
        assert answers[name].err.count("\n") == 1


def test_the_job_of_another_user_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    needs_root()
    folder = tmp_path_factory.mktemp("jobs")
    folder.chmod(0o755)
    make_job(folder / "job", ["https://a.example/1"])
    (folder / "private").mkdir(0o700)
    verbs = {name: ["job", *arguments] for name, arguments in OTHERS.items()}
    for name, answer in call_all(folder, verbs, NOBODY).items():
        assert (answer.code, answer.out) == (1, ""), name
        assert "Permission denied" in answer.err
        assert "look at its owner and its permissions\n" in answer.err
        assert answer.err.count("\n") == 1
    of_all = call_all(folder, {"info": ["."]}, NOBODY)["info"]
    assert of_all.code == 1
    assert "job  cannot be read" in of_all.out
