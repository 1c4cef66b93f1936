from __future__ import annotations

import errno
import functools
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest
from support.waiting import until_later

from bloomdupe import BloomFilter
from bloomdupe.errors import (
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreIOError,
    StoreLockedError,
    StoreMismatchError,
)
from bloomdupe.store.batch import Batch
from bloomdupe.store.format import (
    TABLES,
    JournalEntry,
    journal_record,
    page_value,
    total_of,
)
from bloomdupe.store.lmdb.lmdb_batch import LmdbBatch
from bloomdupe.store.participant import Part
from bloomdupe.store.place import Directory
from bloomdupe.store.system_errors import reason_of

Databases = dict[bytes, Any]
Change = Callable[[lmdb.Transaction, Databases], None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a store with 3,000 keys in two layers, pages and journal."""
    place = tmp_path / "seen"
    with BloomFilter.open(place, 2000, 1e-3) as seen:
        for number in range(2500):
            seen.add(str(number), exact=number % 2 == 0)
        seen._contents.fold()
        seen.update(map(str, range(2500, 3000)))
    return place


# Creation (what is no store, and refused: tests/crash/refusals.py)


def test_an_empty_directory_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    with BloomFilter.open(tmp_path / "seen", 1000) as seen:
        assert seen.add("a")


def test_a_place_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot create a store at .*file/seen"):
        BloomFilter.open(tmp_path / "file" / "seen", 1000)
    with pytest.raises(StoreError, match=r"cannot look for a store at .*/xxx"):
        BloomFilter.open(tmp_path / ("x" * 300), 1000)


@pytest.mark.parametrize("name", ["pathlib.Path.stat", "shutil.disk_usage"])
def test_a_disk_that_cannot_be_looked_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Found by F7: a traceback."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    place = tmp_path / "seen"
    with monkeypatch.context() as patch:
        patch.setattr(name, fail)
        with pytest.raises(StoreIOError, match=r"cannot look at .*Input/output error"):
            Directory(place).room()


def test_an_unfinished_creation_is_no_obstacle(tmp_path: Path) -> None:
    building = tmp_path / "seen.creating"
    building.mkdir()
    (building / "data.mdb").write_bytes(b"half")
    with BloomFilter.open(tmp_path / "seen", 1000) as seen:
        assert seen.add("a")
    assert not building.exists()


@pytest.mark.parametrize("call", ["create", "backup"])
def test_a_planted_link_is_not_followed(path: Path, tmp_path: Path, call: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("mine")
    new = tmp_path / "new"
    calls: dict[str, tuple[Path, Callable[[], object]]] = {
        "create": (tmp_path / "new.creating", lambda: BloomFilter.open(new, 1000)),
        "backup": (tmp_path / "new.creating", lambda: backup(path, new)),
    }
    link, call_ = calls[call]
    link.symlink_to(victim)
    with pytest.raises(StoreError, match=f"{link.name} is a link or a file"):
        call_()
    assert [file.name for file in victim.iterdir()] == ["precious"]
    assert link.is_symlink()
    assert not new.exists()
    link.unlink()
    call_()
    assert [file.name for file in victim.iterdir()] == ["precious"]


def backup(store: Path, target: Path) -> None:
    with BloomFilter.open(store) as seen:
        seen.backup(target)


def test_files_are_private_also_those_of_a_copy(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy")
    for directory in (path, tmp_path / "copy"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / "data.mdb").stat().st_mode) == 0o600
    assert stat.S_IMODE((path / "owner.lock").stat().st_mode) == 0o600


# One owner


HOLD = """
import sys
from bloomdupe import BloomFilter
seen = BloomFilter.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_and_a_killed_one_forgotten(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
        with pytest.raises(StoreLockedError, match=f"in use by process {owner.pid};"):
            BloomFilter.open(path)
        owner.kill()
    with BloomFilter.open(path) as seen:
        assert len(seen) > 2900


def test_a_forked_child_cannot_write(path: Path) -> None:
    with BloomFilter.open(path) as seen:
        seen.add("of the parent")
        child = os.fork()
        if child == 0:
            try:
                seen.checkpoint()
            except StoreError as error:
                os._exit(7 if "forked child" in str(error) else 1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
    with BloomFilter.open(path) as seen:
        assert "of the parent" in seen


# Damage


def edit(path: Path, change: Change) -> None:
    """Change a store behind our back, in a way that LMDB itself finds in order."""
    until_later(path / "data.mdb")
    with lmdb.open(str(path), map_size=1 << 24, max_dbs=16, lib_version=0) as env:
        databases = {name: env.open_db(name) for name in TABLES}
        with env.begin(write=True) as txn:
            change(txn, databases)


def first(txn: lmdb.Transaction, database: Any) -> tuple[bytes, bytes]:
    with txn.cursor(database) as cursor:
        assert cursor.first()
        key, value = cursor.item()
        return bytes(key), bytes(value)


def flip(table: bytes) -> Change:
    def change(txn: lmdb.Transaction, databases: Databases) -> None:
        key, value = first(txn, databases[table])
        txn.put(key, value[:-1] + bytes([value[-1] ^ 1]), db=databases[table])

    return change


def delete(table: bytes) -> Change:
    def change(txn: lmdb.Transaction, databases: Databases) -> None:
        key, _ = first(txn, databases[table])
        txn.delete(key, db=databases[table])

    return change


def swap_pages(txn: lmdb.Transaction, databases: Databases) -> None:
    key, _ = first(txn, databases[b"pages"])
    with txn.cursor(databases[b"pages"]) as cursor:
        assert cursor.last()
        value = cursor.value()
    txn.put(key, value, db=databases[b"pages"])


def flip_record(txn: lmdb.Transaction, databases: Databases) -> None:
    value = bytes(txn.get(b"filter", b"", db=databases[b"meta"]))
    txn.put(b"filter", value.replace(b"exact", b"exactI"), db=databases[b"meta"])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip(b"pages"), "record '0{12}' of pages is damaged"),
        (swap_pages, "record '0{12}' of pages is damaged"),
        (delete(b"pages"), "pages records stand where"),
        (flip(b"journal"), "record .* of journal is damaged"),
        (delete(b"journal"), "0 journal records stand where 1 were written"),
        (delete(b"exact"), "exact records stand where"),
        (flip_record, "record 'filter' of meta is damaged"),
        (delete(b"meta"), "1 meta records stand where 2 were written"),
    ],
)
def test_damage_is_found_before_it_misleads(
    path: Path, damage: Callable[..., None], message: str
) -> None:
    edit(path, damage)

    def use() -> None:
        with BloomFilter.open(path) as seen:
            seen.update(map(str, range(3000)))

    with pytest.raises(StoreDamagedError, match=message) as caught:
        use()
    assert str(path / "data.mdb") in str(caught.value)
    assert "a copy of the last backup in its place" in str(caught.value)


def test_an_undamaged_store_passes(path: Path) -> None:
    """The control of the test above."""
    edit(path, lambda _txn, _databases: None)
    with BloomFilter.open(path) as seen:
        assert seen.update(map(str, range(3000))) == 0


def lose_record(batch: Batch) -> None:
    batch.change(b"meta", [(b"filter", None)])


def move_journal(batch: Batch) -> None:
    moved = journal_record(JournalEntry(2, 7, 0, b"a digest of 16 B"))
    batch.change(b"journal", [moved])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lose_record, "the record of the filter is missing"),
        (move_journal, "journal entry 2 has no layer"),
    ],
)
def test_a_filter_whose_parts_disagree_is_damaged(
    path: Path, change: Callable[[Batch], None], message: str
) -> None:
    """Of a program that writes wrongly, LMDB and the checksums notice nothing."""
    with BloomFilter.open(path) as seen:
        store = seen.share_store()
        assert store is not None
        store.commit(Part(write=change))
    with pytest.raises(StoreDamagedError, match=message):
        BloomFilter.open(path)


# Transactions


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A limit on file size stands for the full disk; lifted, the same object works."""
    code = """
import resource, signal, sys
from bloomdupe import BloomFilter
from bloomdupe.errors import StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
seen = BloomFilter.open(sys.argv[1], 1_000_000, 1e-6)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
try:
    seen.update(map(str, range(100_000)))
except StoreError as error:
    assert "bytes free" in str(error), error
    assert "the last checkpoint stands" in str(error), error
else:
    sys.exit("nothing was refused")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
count = len(seen)
seen.close()
print(count)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "seen")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    count = int(done.stdout)
    with BloomFilter.open(tmp_path / "seen") as seen:
        assert len(seen) == count > 0
        assert all(str(number) in seen for number in range(count))


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (StoreFullError("x"), "frontier_disk_full"),
        (OSError(errno.ENOSPC, "x"), "frontier_disk_full"),
        (StoreIOError("x"), "frontier_io_error"),
        (OSError(errno.EIO, "x"), "frontier_io_error"),
        (MemoryError(), "out_of_memory"),
        (OSError(errno.EACCES, "x"), "frontier_error"),
    ],
)
def test_a_crawl_has_the_reason_of_its_failure(cause: Exception, reason: str) -> None:
    error = StoreError("the last checkpoint stands")
    error.__cause__ = cause
    assert reason_of(cause) == reason_of(error) == reason


# Format


def test_a_page_fills_two_overflow_pages_exactly() -> None:
    value = page_value(0, 0, memoryview(bytes(8192)))
    assert len(value) + 16 == 2 * 4096


def test_a_store_of_a_later_format_names_its_writer(path: Path) -> None:
    edit(path, functools.partial(_write_format, 3))
    with pytest.raises(StoreMismatchError, match=r"has format 3.*bloomdupe 9\.9"):
        BloomFilter.open(path)


def test_a_store_of_format_1_is_refused_in_one_line(path: Path) -> None:
    edit(path, functools.partial(_write_format, 1))
    with pytest.raises(StoreMismatchError, match=r"has format 1.* reads format 2") as e:
        BloomFilter.open(path)
    assert "\n" not in str(e.value)


def _write_format(number: int, txn: lmdb.Transaction, databases: Databases) -> None:
    record = {"magic": "bloomdupe", "format": number, "written_by": "bloomdupe 9.9"}
    LmdbBatch(txn, databases).put_record("store", record)


def test_a_record_of_zeros_is_damaged() -> None:
    """LMDB has no empty keys, so an empty key is a page that was set to zeros."""
    assert total_of(b"queue", [b"", b""], [b"", bytes(8)]) == (0, [0, 1])
