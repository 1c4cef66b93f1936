"""Directory: a place on disk where a store is, or can be made."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreError
from bloomdupe.store import files
from bloomdupe.store.format import FORMAT, MAGIC, META, TABLES, json_of
from bloomdupe.store.lmdb.environment import open_environment
from bloomdupe.store.lmdb.lmdb_batch import LmdbBatch
from bloomdupe.store.lmdb.lmdb_store import LmdbStore
from bloomdupe.store.lmdb.open_data import OpenData
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from pathlib import Path


class Directory:
    """A directory that holds a store, or can hold one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = str(path)

    def exists(self) -> bool:
        """Whether there is a store to open; refuses anything else that is there.

        A missing or empty directory counts as no store.
        """
        with explained(f"cannot look for a store at {self.path}", self.path):
            return files.store_exists(self.path)

    def open(self, *, readonly: bool = False) -> LmdbStore:
        """Open the store, after a check if it was not closed well.

        ``readonly`` takes no lock, and reads the last commit even while another process
        writes.
        """
        if not self.exists():
            raise StoreError(f"{self.path}: there is no bloomdupe store")
        with explained(f"cannot open the store {self.path}", self.path):
            return LmdbStore(self.path, readonly=readonly)

    def create(self, records: dict[str, dict[str, Any]]) -> LmdbStore:
        """Create a store with these records, among them ``store``, and open it.

        It is built beside its place and renamed, so a crash at any instant leaves
        either no store or a complete store.
        """
        path = self.path
        building = path.with_name(path.name + ".creating")
        with explained(f"cannot create a store at {path}", path):
            files.check_file_system(path)
            files.make_directory(path.parent)
            files.delete_unfinished(files.aside(path))
            files.refuse_link(building)
            building.mkdir(mode=0o700, exist_ok=True)
            with files.lock_owner(building):
                for leftover in building.iterdir():
                    if leftover.name != files.OWNER:
                        leftover.unlink()
                _build(building, records)
                building.rename(path)
                files.sync_directory(path.parent)
        return self.open()

    def room(self) -> tuple[int, str]:
        """Return how many bytes a new store could take, and of what they are."""
        place = self.path
        with explained(f"cannot look at {place}", place):
            while not place.exists() and place != place.parent:
                place = place.parent
            return shutil.disk_usage(place).free, f"disk free at {place}"

    def is_marked(self) -> bool:
        """Whether it is itself a store of ours, even if its data is lost."""
        with explained(f"cannot look for a store at {self.path}", self.path):
            marker = files.read_marker(self.path)
        return marker is not None and marker.get("magic") == MAGIC


def _build(building: Path, records: dict[str, dict[str, Any]]) -> None:
    """Fill a new environment, close it, and mark it as sound."""
    header = {"magic": MAGIC, "format": FORMAT, **records["store"]}
    everything = {**records, "store": header}.items()
    files.make_lock_file(building)
    with open_environment(building) as env, env.begin(write=True) as txn:
        batch = LmdbBatch(txn, {name: env.open_db(name, txn) for name in TABLES})
        batch.change(META, [(name.encode(), json_of(one)) for name, one in everything])
        ledger = batch.seal()
    files.write_marker(building, header)
    data = OpenData(building)
    data.begin_marking(ledger.transaction)
    data.close()
