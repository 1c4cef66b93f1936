from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until_later

from bloomdupe import BloomFilter
from bloomdupe.errors import StoreDamagedError, StoreError, StoreIOError
from bloomdupe.store import files, trust
from bloomdupe.store.files import check_file_system, read_mark
from bloomdupe.store.platform import mounts_of

WORK = """
import sys
from bloomdupe import BloomFilter
seen = BloomFilter.open(sys.argv[1], 1000)
for number in range(100):
    seen.add(str(number))
    seen.checkpoint()
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with BloomFilter.open(tmp_path / "seen", 1000) as seen:
        seen.add("a")
    return tmp_path / "seen"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the data files that are checked from now on."""
    checked: list[Path] = []

    def check(data: Path, *arguments: object) -> object:
        checked.append(data)
        return real(data, *arguments)

    real: Any = trust.__dict__["check"]
    monkeypatch.setattr(trust, "check", check)
    return checked


# The mark


def test_what_nobody_has_touched_is_not_checked(path: Path, checks: list[Path]) -> None:
    BloomFilter.open(path).close()
    BloomFilter.open(path, readonly=True).close()
    assert checks == []


def test_after_a_kill_nobody_has_touched_it_either(
    tmp_path: Path, checks: list[Path]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORK, tmp_path / "seen"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        child.send_signal(signal.SIGKILL)
    with BloomFilter.open(tmp_path / "seen") as seen:
        assert len(seen) == 100
    assert checks == []


def touch(path: Path) -> None:
    (path / "data.mdb").touch()


def replace(path: Path) -> None:
    shutil.copy2(path / "data.mdb", path / "copy")
    (path / "copy").replace(path / "data.mdb")


def start_machine(path: Path) -> None:
    mark = json.loads((path / "clean.json").read_text("ascii"))
    mark["boot"] = "another"
    (path / "clean.json").write_text(json.dumps(mark))


def delete_mark(path: Path) -> None:
    (path / "clean.json").unlink()


@pytest.mark.parametrize("change", [touch, replace, start_machine, delete_mark])
def test_what_may_have_changed_is_checked_once(
    path: Path, checks: list[Path], change: object
) -> None:
    assert callable(change)
    until_later(path / "data.mdb")
    change(path)
    assert not read_mark(path)[0]
    BloomFilter.open(path, readonly=True).close()
    BloomFilter.open(path).close()
    BloomFilter.open(path).close()
    assert checks == [path / "data.mdb"] * 2  # who only reads leaves no mark


def test_a_file_that_somebody_else_writes_to_gets_no_mark(path: Path) -> None:
    with BloomFilter.open(path) as seen:
        seen.add("b")
        seen.checkpoint()
        assert read_mark(path)[0]
        os.utime(path / "data.mdb", ns=(1, 1))
        seen.add("c")
        seen.checkpoint()
        assert not read_mark(path)[0]
    assert not read_mark(path)[0]


def test_a_reader_beside_an_owner_checks_nothing(
    path: Path, checks: list[Path]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORK, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        delete_mark(path)
        with BloomFilter.open(path, readonly=True) as seen:
            assert len(seen) == 101
        child.kill()
    assert checks == []


# Who uses it

ASK = """
import fcntl, sys
from pathlib import Path
from bloomdupe.store import files

def asked(fd, kind, lock=fcntl.flock):
    lock(fd, kind)
    print("asked", flush=True)
    sys.stdin.readline()

fcntl.flock = asked
sys.exit(files.in_use(Path(sys.argv[1])))
"""


def test_a_process_that_only_asks_for_the_owner_keeps_none_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes to ask: here, until the lock was tried three times."""
    with subprocess.Popen(
        [sys.executable, "-c", ASK, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "asked\n"
        tried = []

        def pause(seconds: float) -> None:
            tried.append(seconds)
            if len(tried) == 3:
                child.communicate("go on\n")

        monkeypatch.setattr("time.sleep", pause)
        with BloomFilter.open(path) as seen:
            assert "a" in seen
        assert (len(tried), child.returncode) == (3, 0)


# The marker


def test_a_store_from_before_gets_its_marker(path: Path) -> None:
    marker = (path / "store.json").read_text("ascii")
    (path / "store.json").unlink()
    BloomFilter.open(path).close()
    assert (path / "store.json").read_text("ascii") == marker


def test_a_lost_file_is_never_replaced_by_an_empty_store(path: Path) -> None:
    (path / "data.mdb").unlink()
    for _ in range(2):
        with pytest.raises(StoreDamagedError, match=r"deleted.*bloomdupe restore"):
            BloomFilter.open(path, 1000)


def test_a_file_that_goes_away_in_use_takes_no_commit(path: Path) -> None:
    seen = BloomFilter.open(path)
    (path / "data.mdb").rename(path / "gone.mdb")
    seen.add("b")
    for _ in range(2):
        with pytest.raises(StoreIOError, match="deleted, replaced or cut short"):
            seen.checkpoint()
    with pytest.raises(StoreIOError):
        seen.close()
    (path / "gone.mdb").rename(path / "data.mdb")
    with BloomFilter.open(path) as again:
        assert len(again) == 1


# The lock file


def test_the_lock_file_has_its_space_on_disk(path: Path) -> None:
    found = (path / "lock.mdb").stat()
    assert found.st_blocks * 512 >= files.LOCK_BYTES
    os.truncate(path / "lock.mdb", 0)
    os.truncate(path / "lock.mdb", files.LOCK_BYTES)  # a hole, as LMDB makes it
    BloomFilter.open(path).close()
    assert (path / "lock.mdb").stat().st_blocks * 512 >= files.LOCK_BYTES


# File systems


MOUNTS = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
25 21 0:23 / /proc rw,nosuid shared:5 - proc proc rw
36 21 0:46 / /home rw,relatime shared:20 - nfs4 server:/home rw,vers=4.2
37 36 0:47 / /home/fast\\040disk rw,relatime shared:21 - xfs /dev/vdb rw
38 21 0:48 / /mnt/share rw - cifs //server/share rw
39 21 0:49 / /mnt/ssh rw - fuse.sshfs me@server: rw
40 21 0:50 / /mnt/late rw - ext4 /dev/vdc rw
41 40 0:51 / /mnt/late rw - nfs server:/late rw
"""


@pytest.mark.parametrize(
    ("job", "kind"),
    [
        ("/home/me/job", "nfs4"),
        ("/mnt/share", "cifs"),
        ("/mnt/ssh/a/b", "fuse.sshfs"),
        ("/mnt/late/job", "nfs"),
    ],
)
def test_network_file_systems_are_refused(job: str, kind: str) -> None:
    with pytest.raises(StoreError, match=rf"{job} is .*\({kind}\).*ALLOW_NETWORK_FS"):
        check_file_system(Path(job), mounts_of(MOUNTS))


@pytest.mark.parametrize("job", ["/home/fast disk/job", "/srv/job", "/homely", "/"])
def test_local_file_systems_are_fine(job: str) -> None:
    check_file_system(Path(job), mounts_of(MOUNTS))


def test_this_machine_can_be_asked(tmp_path: Path) -> None:
    check_file_system(tmp_path)
