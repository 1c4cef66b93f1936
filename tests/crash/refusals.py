"""F10: a place or a file that is not the store of this job.

Each must be refused with an error that names the file and the remedy, and left as it
is; or be harmless.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import lmdb
from child import in_child
from support.waiting import until_later
from trial import OK, Fault, Outcome, lost, refused_well, silently_wrong

from bloomdupe import BloomFilter
from bloomdupe.errors import BloomDupeError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store.format import META, TABLES, meta_records
from bloomdupe.store.lmdb import open_data
from bloomdupe.store.lmdb.environment import write_parts
from bloomdupe.store.store import Part

Change: TypeAlias = Callable[[Path], object]
"""Of a store at a path."""
KEYS = 500
IDENTITY = {"spider": "here"}
NOBODY = 65534
HELP = (
    "the last backup", "name another place", "move it away", "delete it", "ask for",
    "use the version that wrote it", "permissions", "run as that user",
    "move the store away",
)  # fmt: skip
"""The remedies that an error may name."""


def make(path: Path, spider: str = "here") -> None:
    with BloomFilter.open(path, 1000, 1e-6, identity={"spider": spider}) as seen:
        seen.update(str(number) for number in range(KEYS))
        frontier = Frontier(seen)
        frontier.push("host", 0, b"payload")
        frontier.checkpoint()


def data(path: Path) -> Path:
    return path / "data.mdb"


def cut(path: Path, kept: Callable[[int], int]) -> None:
    """Keep so much of the data file's bytes."""
    os.truncate(data(path), kept(data(path).stat().st_size))


def instead(file: Path, make_it: Change) -> None:
    """Put something in the place of a file."""
    file.unlink()
    make_it(file)


def without(path: Path, *names: str) -> None:
    for name in names:
        (path / name).unlink()


def of_another(path: Path, name: str) -> None:
    """Take a file of another store."""
    other = path.with_name("other")
    make(other)
    (other / name).replace(path / name)


def younger_self(path: Path) -> None:
    """Put the file in its place as it was before: only the mark of the close knows."""
    old = data(path).read_bytes()
    with BloomFilter.open(path) as seen:
        seen.add("later")
    until_later(data(path))
    data(path).write_bytes(old)


def symbolic_link(path: Path) -> None:
    data(path).rename(path.with_name("elsewhere.mdb"))
    data(path).symlink_to(path.with_name("elsewhere.mdb"))


def foreign_lmdb(path: Path, version: int) -> None:
    """Put a database of LMDB 0.9, or 1.0, in its place."""
    shutil.rmtree(path)
    with (
        lmdb.open(str(path), map_size=1 << 20, lib_version=version) as env,
        env.begin(write=True) as txn,
    ):
        txn.put(b"a", b"b")


def header(path: Path, **record: object) -> None:
    """Change the record in which a store describes itself."""
    with lmdb.open(str(path), map_size=1 << 24, max_dbs=16, lib_version=0) as env:
        databases = {name: env.open_db(name) for name in TABLES}
        with env.begin(write=True) as txn:
            part = Part(changes={META: meta_records({"store": record})})
            write_parts(txn, databases, [part], {})


def anew(path: Path, make_it: Change) -> None:
    """Put something in the place of the store."""
    shutil.rmtree(path)
    make_it(path)


def folder_of_others(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("mine")


def of_another_user(path: Path) -> None:
    for folder in (path, path.parent, path.parent.parent):
        folder.chmod(0o755)
    os.seteuid(NOBODY)


def in_private(path: Path) -> None:
    path.parent.chmod(0o700)
    os.seteuid(NOBODY)


def unreadable(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)
    for file in path.iterdir():
        os.chown(file, NOBODY, NOBODY)
        file.chmod(0)
    os.seteuid(NOBODY)


def its_backup(path: Path) -> None:
    """Put the backup in its place; the mark is still of the file before."""
    copy = path.with_name("copy")
    with BloomFilter.open(path, readonly=True) as seen:
        seen.backup(copy)
    data(copy).replace(data(path))


REFUSED: dict[str, Change] = {
    "truncated to nothing": lambda store: cut(store, lambda _: 0),
    "truncated to a head": lambda store: cut(store, lambda _: 4096),
    "truncated to half": lambda store: cut(store, lambda size: size // 8192 * 4096),
    "truncated by a page": lambda store: cut(store, lambda size: size - 4096),
    "truncated within a page": lambda store: cut(store, lambda size: size - 100),
    "deleted": lambda store: without(store, "data.mdb"),
    "deleted but for the mark": lambda store: without(
        store, "data.mdb", "lock.mdb", "owner.lock"
    ),
    "replaced by another store": lambda store: of_another(store, "data.mdb"),
    "replaced by a younger self": younger_self,
    "symbolic link": symbolic_link,
    "dangling link": lambda store: instead(
        data(store), lambda file: file.symlink_to(file.with_name("nowhere"))
    ),
    "FIFO": lambda store: instead(data(store), os.mkfifo),
    "directory": lambda store: instead(data(store), Path.mkdir),
    "device": lambda store: instead(
        data(store), lambda file: file.symlink_to("/dev/zero")
    ),
    "garbage": lambda store: data(store).write_bytes(bytes(range(256)) * 400),
    "text": lambda store: data(store).write_bytes(b"this is no database\n" * 1000),
    "of LMDB": lambda store: foreign_lmdb(store, 0),
    "of LMDB 1.0": lambda store: foreign_lmdb(store, 1),
    "later format": lambda store: header(
        store, magic="bloomdupe", format=99, written_by="bloomdupe 9.9"
    ),
    "no header": lambda store: header(store, magic="something else"),
    "other spider": lambda store: anew(store, lambda path: make(path, "there")),
    "mark of another": lambda store: of_another(store, "clean.json"),
    "mark FIFO": lambda store: instead(store / "clean.json", os.mkfifo),
    "place is a file": lambda store: anew(store, lambda path: path.write_text("mine")),
    "directory with other files": lambda store: anew(store, folder_of_others),
    "lock is a directory": lambda store: instead(store / "lock.mdb", Path.mkdir),
    "owner is a link": lambda store: instead(
        store / "owner.lock",
        lambda file: file.symlink_to(file.parent.with_name("victim")),
    ),
    "of another user": of_another_user,
    "of another user, in private": in_private,
    "unreadable": unreadable,
}
HARMLESS: dict[str, Change] = {
    "mark deleted": lambda store: without(store, "clean.json"),
    "mark empty": lambda store: (store / "clean.json").write_bytes(b""),
    "mark garbage": lambda store: (store / "clean.json").write_bytes(b"\xff\x00{"),
    "mark of other values": lambda store: (store / "clean.json").write_bytes(
        b'{"device": "?", "transaction": []}'
    ),
    "locks deleted": lambda store: without(
        store, "lock.mdb", "owner.lock", "clean.json"
    ),
    "lock truncated": lambda store: os.truncate(store / "lock.mdb", 10),
    "replaced by its backup": its_backup,
}


class Refusals(Fault):
    """A table of things that are no store, or not the right one."""

    number = "F10"
    name = "truncated, replaced, foreign, not a store"
    needs = "root"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        del seed  # no chance in it
        return [_tried(folder, name) for name in (*REFUSED, *HARMLESS)]

    def control(self, folder: Path) -> list[Outcome]:
        """Without a look at the mark."""

        def careless(path: Path) -> Outcome:
            marked = open_data.Marked(trusted=True, transaction=0)
            open_data.read_mark = lambda path: marked
            return _opened(path, refuse=True)

        names = ("replaced by another store", "replaced by a younger self")
        return [_tried(folder, name, careless) for name in names]


def _tried(
    folder: Path, name: str, opened: Callable[[Path], Outcome] | None = None
) -> Outcome:
    path = folder / name / "store"
    path.parent.mkdir()
    make(path)

    def judged() -> Outcome:
        until_later(path / "data.mdb")
        (REFUSED | HARMLESS)[name](path)
        before = _contents(path.parent)
        outcome = opened(path) if opened else _opened(path, refuse=name in REFUSED)
        os.seteuid(0)
        if outcome == OK and name in REFUSED and _contents(path.parent) != before:
            return silently_wrong("it was refused, and changed")
        return outcome

    return in_child(judged).at(name)


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
            entry = Frontier(seen).pop()
    except BloomDupeError as error:
        if not refuse:
            return lost(f"it was harmless, and refused: {error}")
        return refused_well(error, path, *HELP)
    if missing or entry is None or entry.payload != b"payload":
        return silently_wrong(f"it opens, and {missing} keys are missing")
    return silently_wrong("it was not refused") if refuse else OK
