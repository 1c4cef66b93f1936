"""The filters that are compared, each filled the way its own manual does it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import mmh3

from bloomdupe import BloomFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import ModuleType

    Maker = Callable[[int, float, Path], Any]
    Filler = Callable[[Any, Sequence[bytes]], object]


class Contestant(NamedTuple):
    """A filter and a way to fill it."""

    name: str
    make: Maker
    """``make(n, p, file)``; a persistent filter lives at ``file``."""
    fill: Filler
    slow: bool = False
    """Takes more than 2 µs a key: gets a tenth of the keys and of the capacity."""


def add(target: Any, keys: Sequence[bytes]) -> None:
    put = target.add
    for key in keys:
        put(key)


def check_and_add(target: Any, keys: Sequence[bytes]) -> None:
    put = target.add
    for key in keys:
        if key not in target:
            put(key)


def update(target: BloomFilter, keys: Sequence[bytes]) -> None:
    target.update(keys)


def add_if_not_contains(target: Any, keys: Sequence[bytes]) -> None:
    put = target.add_if_not_contains
    for key in keys:
        put(key)


def ask(target: Any, keys: Sequence[bytes]) -> None:
    for key in keys:
        key in target  # noqa: B015


def through_python(key: bytes) -> int:
    return int.from_bytes(mmh3.mmh3_x64_128_digest(key), "big", signed=True)


OURS = "bloomdupe, memory: add"
OURS_UPDATE = "bloomdupe, memory: update"
OURS_STORE = "bloomdupe, store: add, checkpoint every 10,000"
PYBLOOM_MMAP = "pybloomfiltermmap3, file: add"
PYBLOOM_MMAP_CHECK = "pybloomfiltermmap3, file: check and add"
RBLOOM_CHECK = "rbloom, mmh3 hash: check and add"
RBLOOM_ADD = "rbloom, mmh3 hash: add (answers nothing)"

SIZABLE = frozenset(
    {OURS, OURS_UPDATE, OURS_STORE, PYBLOOM_MMAP, PYBLOOM_MMAP_CHECK}
    | {RBLOOM_CHECK, RBLOOM_ADD, "set: check and add"}
)
"""Those that are measured at n = 10 M, too."""


def contestants() -> list[Contestant]:
    """All that are installed, ours first."""
    return [
        Contestant(OURS, lambda n, p, _: BloomFilter(n, p), add),
        Contestant(OURS_UPDATE, lambda n, p, _: BloomFilter(n, p), update),
        Contestant(OURS_STORE, lambda n, p, file: BloomFilter.open(file, n, p), add),
        *_pybloom_mmap(_optional("pybloomfilter")),
        *_rbloom(_optional("rbloom")),
        *_pybloom_live(_optional("pybloom_live")),
        *_bloom_filter2(_optional("bloom_filter2")),
        *_fastbloom(_optional("fastbloom_rs")),
        Contestant("set: check and add", lambda _n, _p, _: set(), check_and_add),
    ]


def _optional(module: str) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def _pybloom_mmap(module: ModuleType | None) -> list[Contestant]:
    if module is None:
        return []

    def make(n: int, p: float, file: Path) -> Any:
        return module.BloomFilter(n, p, str(file))

    return [
        Contestant(PYBLOOM_MMAP, make, add),
        Contestant(PYBLOOM_MMAP_CHECK, make, check_and_add),
    ]


def _rbloom(module: ModuleType | None) -> list[Contestant]:
    if module is None:
        return []
    bloom = module.Bloom

    def portable(n: int, p: float, _: Path) -> Any:
        return bloom(n, p, mmh3.mmh3_x64_128_sintdigest)

    def readme(n: int, p: float, _: Path) -> Any:
        return bloom(n, p, through_python)

    return [
        Contestant(RBLOOM_CHECK, portable, check_and_add),
        Contestant(RBLOOM_ADD, portable, add),
        Contestant("rbloom, mmh3 through a def: check and add", readme, check_and_add),
        Contestant(
            "rbloom, Python's hash (cannot be saved): check and add",
            lambda n, p, _: bloom(n, p),
            check_and_add,
        ),
    ]


def _pybloom_live(module: ModuleType | None) -> list[Contestant]:
    if module is None:
        return []
    return [
        Contestant(
            "pybloom-live: add", lambda n, p, _: module.BloomFilter(n, p), add, True
        ),
        Contestant(
            "pybloom-live, scalable: add",
            lambda n, p, _: module.ScalableBloomFilter(n, p),
            add,
            True,
        ),
    ]


def _bloom_filter2(module: ModuleType | None) -> list[Contestant]:
    if module is None:
        return []

    def make(n: int, p: float, _: Path) -> Any:
        return module.BloomFilter(max_elements=n, error_rate=p)

    return [Contestant("bloom-filter2: check and add", make, check_and_add, True)]


def _fastbloom(module: ModuleType | None) -> list[Contestant]:
    if module is None:
        return []

    def make(n: int, p: float, _: Path) -> Any:
        return module.BloomFilter(n, p)

    return [Contestant("fastbloom-rs: add_if_not_contains", make, add_if_not_contains)]
