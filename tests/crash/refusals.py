"""F10: a place or a file that is not the store of this job.

Each must be refused with an error that names the file and the remedy, and left as it
is; or be harmless.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
from child import in_child
from support.waiting import until_later
from trial import OK, Fault, Outcome, lost, silently_wrong

from bloomdupe import BloomFilter
from bloomdupe.errors import BloomDupeError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store import files
from bloomdupe.store.format import TABLES
from bloomdupe.store.lmdb import open_data
from bloomdupe.store.lmdb.lmdb_batch import LmdbBatch

KEYS = 500
IDENTITY = {"spider": "here"}
NOBODY = 65534
HELP = (
    "the last backup", "name another place", "move it away", "delete it", "ask for",
    "delete store.json", "use the version that wrote it", "permissions",
    "run as that user", "move the store away",
)  # fmt: skip
"""The remedies that an error may name."""


def make(path: Path, spider: str = "here") -> None:
    with BloomFilter.open(path, 1000, 1e-6, identity={"spider": spider}) as seen:
        seen.update(str(number) for number in range(KEYS))
        owed = Frontier(seen)
        owed.push("host", 0, b"payload")
        owed.checkpoint()


def data(path: Path) -> Path:
    return path / "data.mdb"


# Changes of a store


def truncated_to_nothing(path: Path) -> None:
    os.truncate(data(path), 0)


def truncated_to_a_head(path: Path) -> None:
    os.truncate(data(path), 4096)


def truncated_to_half(path: Path) -> None:
    os.truncate(data(path), data(path).stat().st_size // 8192 * 4096)


def truncated_by_a_page(path: Path) -> None:
    os.truncate(data(path), data(path).stat().st_size - 4096)


def truncated_within_a_page(path: Path) -> None:
    os.truncate(data(path), data(path).stat().st_size - 100)


def deleted(path: Path) -> None:
    data(path).unlink()


def deleted_but_for_the_marker(path: Path) -> None:
    for file in path.iterdir():
        if file.name != "store.json":
            file.unlink()


def replaced_by_another_store(path: Path) -> None:
    make(path.with_name("other"))
    data(path.with_name("other")).replace(data(path))


def replaced_by_a_younger_self(path: Path) -> None:
    """The file as it was before: only the mark of the last close knows."""
    old = data(path).read_bytes()
    with BloomFilter.open(path) as seen:
        seen.add("later")
    until_later(data(path))
    data(path).write_bytes(old)


def symbolic_link(path: Path) -> None:
    data(path).rename(path.with_name("elsewhere.mdb"))
    data(path).symlink_to(path.with_name("elsewhere.mdb"))


def dangling_link(path: Path) -> None:
    data(path).unlink()
    data(path).symlink_to(path / "nowhere")


def fifo(path: Path) -> None:
    data(path).unlink()
    os.mkfifo(data(path))


def directory(path: Path) -> None:
    data(path).unlink()
    data(path).mkdir()


def device(path: Path) -> None:
    data(path).unlink()
    data(path).symlink_to("/dev/zero")


def garbage(path: Path) -> None:
    data(path).write_bytes(bytes(range(256)) * 400)


def text(path: Path) -> None:
    data(path).write_text("this is no database\n" * 1000)


def foreign_lmdb(path: Path) -> None:
    shutil.rmtree(path)
    with (
        lmdb.open(str(path), map_size=1 << 20, lib_version=0) as env,
        env.begin(write=True) as txn,
    ):
        txn.put(b"a", b"b")


def later_lmdb(path: Path) -> None:
    """A file of LMDB 1.0."""
    shutil.rmtree(path)
    with (
        lmdb.open(str(path), map_size=1 << 20, lib_version=1) as env,
        env.begin(write=True) as txn,
    ):
        txn.put(b"a", b"b")


def _rewrite(path: Path, name: str, record: dict[str, Any]) -> None:
    with lmdb.open(str(path), map_size=1 << 24, max_dbs=16, lib_version=0) as env:
        databases = {name: env.open_db(name) for name in TABLES}
        with env.begin(write=True) as txn:
            LmdbBatch(txn, databases).put_record(name, record)


def later_format(path: Path) -> None:
    later = {"magic": "bloomdupe", "format": 99, "written_by": "bloomdupe 9.9"}
    _rewrite(path, "store", later)


def no_header(path: Path) -> None:
    _rewrite(path, "store", {"magic": "something else"})


def other_spider(path: Path) -> None:
    shutil.rmtree(path)
    make(path, "there")


def marker_of_another(path: Path) -> None:
    make(path.with_name("other"))
    shutil.copy(path.with_name("other") / "store.json", path)


def marker_garbage(path: Path) -> None:
    (path / "store.json").write_bytes(b"\xff\x00{")


def marker_empty(path: Path) -> None:
    (path / "store.json").write_bytes(b"")


def marker_fifo(path: Path) -> None:
    (path / "store.json").unlink()
    os.mkfifo(path / "store.json")


def place_is_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("mine")


def directory_with_other_files(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()
    (path / "thesis.txt").write_text("mine")


def lock_is_a_directory(path: Path) -> None:
    (path / "lock.mdb").unlink()
    (path / "lock.mdb").mkdir()


def owner_is_a_link(path: Path) -> None:
    (path / "owner.lock").unlink()
    (path / "owner.lock").symlink_to(path.with_name("victim"))


def of_another_user(path: Path) -> None:
    for folder in (path, path.parent, path.parent.parent):
        folder.chmod(0o755)
    os.seteuid(NOBODY)


def of_another_user_in_private(path: Path) -> None:
    path.parent.chmod(0o700)
    os.seteuid(NOBODY)


def unreadable(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)
    for file in path.iterdir():
        os.chown(file, NOBODY, NOBODY)
        file.chmod(0)
    os.seteuid(NOBODY)


# Harmless


def marker_deleted(path: Path) -> None:
    (path / "store.json").unlink()


def mark_garbage(path: Path) -> None:
    (path / "clean.json").write_text(json.dumps({"device": "?", "transaction": []}))


def locks_deleted(path: Path) -> None:
    for name in ("lock.mdb", "owner.lock", "clean.json"):
        (path / name).unlink()


def replaced_by_its_backup(path: Path) -> None:
    """The backup is in place, the mark is still of the file before."""
    copy = path.with_name("copy")
    with BloomFilter.open(path, readonly=True) as seen:
        seen.backup(copy)
    data(copy).replace(data(path))


def lock_truncated(path: Path) -> None:
    os.truncate(path / "lock.mdb", 10)


REFUSED: tuple[Callable[[Path], None], ...] = (
    truncated_to_nothing, truncated_to_a_head, truncated_to_half, truncated_by_a_page,
    truncated_within_a_page, deleted, deleted_but_for_the_marker,
    replaced_by_another_store, replaced_by_a_younger_self, symbolic_link, dangling_link,
    fifo, directory, device, garbage, text, foreign_lmdb, later_lmdb, later_format,
    no_header, other_spider, marker_of_another,
    marker_garbage, marker_empty, marker_fifo, place_is_a_file,
    directory_with_other_files, lock_is_a_directory, owner_is_a_link, of_another_user,
    of_another_user_in_private,
    unreadable,
)  # fmt: skip
HARMLESS = (
    marker_deleted, mark_garbage, locks_deleted, lock_truncated, replaced_by_its_backup,
)  # fmt: skip


class Refusals(Fault):
    """A table of things that are no store, or not the right one."""

    number = "F10"
    name = "truncated, replaced, foreign, not a store"
    trials = len(REFUSED) + len(HARMLESS)

    def missing(self) -> str | None:
        return None if os.geteuid() == 0 else "needs root, to be somebody else"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        del seed  # no chance in it
        return [_tried(folder, change) for change in (*REFUSED, *HARMLESS)]

    def control(self, folder: Path) -> list[Outcome]:
        """Without a look at the marker and the mark."""

        def careless(path: Path) -> Outcome:
            open_data.read_mark = lambda path: open_data.Marked(  # noqa: ARG005
                clean=True, interrupted=False, transaction=0
            )
            files.read_marker = lambda path: None  # noqa: ARG005
            return _opened(path, refuse=True)

        changes = (replaced_by_another_store, replaced_by_a_younger_self)
        return [_tried(folder, change, careless) for change in changes]


def _tried(
    folder: Path,
    change: Callable[[Path], None],
    opened: Callable[[Path], Outcome] | None = None,
) -> Outcome:
    path = folder / change.__name__ / "store"
    path.parent.mkdir()
    make(path)

    def judged() -> Outcome:
        until_later(path / "data.mdb")
        change(path)
        before = _contents(path.parent)
        if opened is None:
            outcome = _opened(path, refuse=change in REFUSED)
        else:
            outcome = opened(path)
        os.seteuid(0)
        if outcome == OK and change in REFUSED and _contents(path.parent) != before:
            return silently_wrong("it was refused, and changed")
        return outcome

    outcome = in_child(judged)
    return Outcome(outcome.verdict, f"{change.__name__}: {outcome.words}")


def _contents(folder: Path) -> dict[str, bytes]:
    """Everything but the name of the last owner, and of LMDB's readers."""
    uid = os.geteuid()
    os.seteuid(0)
    found = {
        str(file): file.read_bytes() if file.is_file() else b""
        for file in folder.rglob("*")
        if file.name not in {"owner.lock", "lock.mdb"}
    }
    os.seteuid(uid)
    return found


def _opened(path: Path, *, refuse: bool) -> Outcome:
    try:
        with BloomFilter.open(path, 1000, 1e-6, identity=IDENTITY) as seen:
            missing = sum(str(number) not in seen for number in range(KEYS))
            entry = Frontier(seen).lease()
    except BloomDupeError as error:
        words = str(error)
        if not refuse:
            return lost(f"it was harmless, and refused: {words}")
        if str(path) not in words or not any(words.count(some) for some in HELP):
            return lost(f"the refusal does not help: {words}")
        return OK
    if missing or entry is None or entry.payload != b"payload":
        return silently_wrong(f"it opens, and {missing} keys are missing")
    return silently_wrong("it was not refused") if refuse else OK
