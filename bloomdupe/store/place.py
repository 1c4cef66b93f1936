"""Places: where the store of a job is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from bloomdupe.store import files
from bloomdupe.store.format import MAGIC
from bloomdupe.store.lmdb.lmdb_store import Directory
from bloomdupe.store.system_errors import failed

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.store.store import StorePlace


SWITCH = "_BLOOMDUPE_STORE_ON_REDIS"
"""Variable of the environment: URL of the Redis that keeps stores instead of LMDB."""


def place_of(path: Path) -> StorePlace:
    """Return the place of the store that belongs to a directory."""
    if server := os.environ.get(SWITCH):
        from bloomdupe.store.redis.address import Address
        from bloomdupe.store.redis.redis_place import RedisPlace

        address = Address.of(f"{server}#{quote(str(path.absolute()))}")
        return RedisPlace(address, path)
    return Directory(path)


def is_marked(path: Path) -> bool:
    """Whether a directory is itself a store of ours, even if its data is lost."""
    try:
        marker = files.read_marker(path)
    except OSError as error:
        raise failed(f"cannot look for a store at {path}", path, error) from error
    return marker is not None and marker.get("magic") == MAGIC
