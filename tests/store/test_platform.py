"""The ways of Linux and of macOS tell the same about the same machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.shared_data import REPOSITORY, needs_package

from bloomdupe.store import platform

ELSEWHERE = REPOSITORY / "tests" / "support" / "elsewhere"
KNOWN = """
import json, pathlib, sys
from bloomdupe.store import platform

known = {
    "boot": platform.boot_id(),
    "file system": platform.file_system_of(pathlib.Path("/")),
    "memory": platform.memory_of_machine()[0],
    "group": platform.memory_of_group(),
    "process": platform.process_memory(),
    "by psutil": "psutil" in sys.modules,
}
import psutil

found = psutil.Process().memory_info()
print(json.dumps(known | {"known by psutil": found.rss}))
"""


def known(**environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", KNOWN],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_without_the_files_of_linux_the_answers_are_the_same() -> None:
    needs_package("psutil")
    linux, other = (
        known(PYTHONPATH=path)
        for path in (str(REPOSITORY), f"{ELSEWHERE}:{REPOSITORY}")
    )
    assert (linux["by psutil"], other["by psutil"]) == (False, True)
    assert other["group"] is None
    for one in (linux, other):
        # The memory of a process changes all the time, also by the import of psutil.
        theirs = one["known by psutil"]
        assert theirs / 3 < one["process"] < 3 * theirs
    for name in ("boot", "memory", "file system"):
        assert linux[name]
        assert linux[name] == other[name]


@pytest.mark.parametrize("there", [b"", b"\0", b"x" * 5000, b"x" * 20000])
@pytest.mark.parametrize("length", [1, 512, 8192, 10000])
def test_reserved_space_is_on_the_disk_and_keeps_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bytes, length: int
) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    file = tmp_path / "file"
    file.write_bytes(there)
    os.truncate(file, max(len(there), 700))  # with a hole
    fd = os.open(file, os.O_RDWR)
    try:
        platform.reserve(fd, length)
        platform.sync_data(fd)
    finally:
        os.close(fd)
    found = file.stat()
    assert found.st_size == max(len(there), 700, length)
    assert found.st_blocks * 512 >= length
    content = file.read_bytes()
    assert content.startswith(there)
    assert not content[len(there) :].strip(b"\0")


@pytest.mark.parametrize("name", ["win32", "cygwin"])
def test_windows_is_refused_in_a_line(name: str) -> None:
    code = f"import sys; sys.platform = {name!r}; import bloomdupe"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: bloomdupe does not run on Windows: it needs the locks and files"
        " of Linux or macOS"
    )
