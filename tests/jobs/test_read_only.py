"""A job on media that cannot be written: verbs that only read work, others refuse."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.crawl import BLOOMDUPE
from support.jobs import make_job
from support.repetition import slow_tests_run
from support.shared_data import lacks, needs_program
from support.waiting import DEADLINE

READING = (["info"], ["list"], ["verify"])
CHANGING = (
    ["drop", "--pattern", "."],
    ["block", "--slot", "a.example"],
    ["reset", "--yes"],
)
MOUNT = 'mount --bind "$0" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def test_on_media_that_cannot_be_written_verbs_that_only_read_work(
    tmp_path: Path,
) -> None:
    """They are mounted read-only for the verbs."""
    needs_program("unshare", "util-linux")
    if os.geteuid():
        lacks("needs root")
    make_job(tmp_path / "job", [f"https://a.example/{n}" for n in range(10)])
    media = tmp_path / "media"
    media.mkdir()
    verbs = READING + CHANGING if slow_tests_run() else READING[:1] + CHANGING[:1]
    for name, *more in verbs:
        done = subprocess.run(
            [
                *("unshare", "-m", "sh", "-c", MOUNT, "../job", "../media"),
                *(str(BLOOMDUPE), name, "../media", *more),
            ],
            cwd=media,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )
        if [name, *more] in READING:
            assert (done.returncode, done.stderr) == (0, ""), name
        else:
            assert (done.returncode, done.stdout) == (1, ""), name
            assert "Read-only file system" in done.stderr
            assert done.stderr.count("\n") == 1
