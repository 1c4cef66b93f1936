"""The reader of LMDB's file against LMDB, and against py-lmdb's own verifier."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lmdb
import lmdb.verify
import pytest

from bloomdupe.store.lmdb.datafile import DataFile, NotLmdbError

if TYPE_CHECKING:
    from pathlib import Path

Contents = dict[bytes, dict[bytes, bytes]]


def fill(path: Path, seed: int, page_turns: int = 30) -> Contents:
    """Write at random; return the contents that must be there."""
    rng = random.Random(seed)
    expected: Contents = {name: {} for name in (b"short", b"long", b"keys", b"none")}
    with lmdb.open(str(path), map_size=1 << 26, max_dbs=8, lib_version=0) as env:
        databases = {name: env.open_db(name) for name in expected}
        for _ in range(page_turns):
            with env.begin(write=True) as txn:
                for _ in range(rng.randrange(300)):
                    key = rng.randbytes(rng.choice([4, 20, 20, 200]))
                    short = rng.randbytes(rng.randrange(1, 200))
                    txn.put(key, short, db=databases[b"short"])
                    expected[b"short"][key] = short
                    identity = rng.randbytes(16)
                    txn.put(identity, b"", db=databases[b"keys"])
                    expected[b"keys"][identity] = b""
                for _ in range(rng.randrange(5)):
                    key = rng.randbytes(6)
                    long = rng.randbytes(rng.choice([2013, 2100, 8176, 20_000]))
                    txn.put(key, long, db=databases[b"long"])
                    expected[b"long"][key] = long
                for name, records in expected.items():
                    for key in rng.sample(sorted(records), len(records) // 4):
                        txn.delete(key, db=databases[name])
                        del records[key]
    return expected


def read(path: Path) -> tuple[Contents, list[str]]:
    found: Contents = {}
    with DataFile(path / "data.mdb") as file:
        for name, root in file.databases().items():
            found[name] = {}
            for leaf in file.records(name, root):
                found[name].update(zip(leaf.keys, leaf.values, strict=True))
        file.finish()
        return found, file.problems


@pytest.mark.parametrize("seed", range(4))
def test_it_reads_files_of_lmdb(tmp_path: Path, seed: int) -> None:
    expected = fill(tmp_path, seed)
    assert read(tmp_path) == (expected, [])


def test_it_misses_nothing_that_lmdbs_own_verifier_finds(tmp_path: Path) -> None:
    expected = fill(tmp_path, 5, 10)
    place = tmp_path / "data.mdb"
    whole = place.read_bytes()
    rng = random.Random(5)
    found = changed = 0
    for _ in range(150):
        data = bytearray(whole)
        at = rng.randrange(len(data) // 4096) * 4096
        at += rng.choice([rng.randrange(24), rng.randrange(4096)])
        data[at] ^= rng.choice([1, 128, 255])
        place.write_bytes(data)
        try:
            theirs = lmdb.verify.verify(str(place))  # type: ignore[no-untyped-call]
        except lmdb.verify.VerifyError as error:
            theirs = [str(error)]
        try:
            contents, ours = read(tmp_path)
        except NotLmdbError as error:
            contents, ours = {}, [str(error)]
        if theirs:
            found += 1
            assert ours, f"byte {at}: {theirs}"
        if not ours:
            assert contents.keys() == expected.keys()
            changed += contents != expected
    assert found > 20
    assert changed > 3  # values have checksums of ours, see bloomdupe.store.lmdb.check


def test_pages_in_use_that_are_listed_as_free_are_found(tmp_path: Path) -> None:
    """LMDB would write over them."""
    fill(tmp_path, 6, 10)
    place = tmp_path / "data.mdb"
    data = bytearray(place.read_bytes())
    head = max((0, 4096), key=lambda at: data[at + 144 : at + 152][::-1])
    root = int.from_bytes(data[head + 80 : head + 88], "little")
    leaf = root * 4096
    node = leaf + int.from_bytes(data[leaf + 16 : leaf + 18], "little")
    assert data[leaf + 10] == 2  # the list of free pages is a single leaf
    first = node + 16 + 8  # behind node, key and length of the list
    main = int.from_bytes(data[head + 128 : head + 136], "little")
    data[first : first + 8] = main.to_bytes(8, "little")
    place.write_bytes(data)
    assert any("free pages" in problem for problem in read(tmp_path)[1])
