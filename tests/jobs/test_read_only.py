"""A job on media that cannot be written: what only reads works, all else says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.jobs import make_job
from support.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable

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


@pytest.fixture(scope="module")
def call(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return what calls a verb in a place that was mounted read-only for it."""
    folder = tmp_path_factory.mktemp("media")
    make_job(folder / "job", [f"https://a.example/{n}" for n in range(10)])
    (folder / "media").mkdir()
    if os.geteuid() or shutil.which("unshare") is None:
        reason = "needs root, and unshare"
        if os.environ.get("BLOOMDUPE_TEST_ALL"):
            pytest.fail(reason)
        pytest.skip(reason)

    def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        script = str(Path(sys.executable).with_name("bloomdupe"))
        command = ["unshare", "-m", "sh", "-c", MOUNT, "../job", "../media"]
        return subprocess.run(
            [*command, script, name, "../media", *arguments],
            cwd=folder / "media",
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )

    return run


@pytest.mark.parametrize("name", READING)
def test_what_only_reads_works(
    call: Callable[..., subprocess.CompletedProcess[str]], name: str
) -> None:
    done = call(name, *READING[name])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", CHANGING)
def test_what_changes_something_says_that_it_cannot(
    call: Callable[..., subprocess.CompletedProcess[str]], name: str
) -> None:
    done = call(name, *CHANGING[name])
    assert (done.returncode, done.stdout) == (1, "")
    assert "Read-only file system" in done.stderr
    assert done.stderr.count("\n") == 1
