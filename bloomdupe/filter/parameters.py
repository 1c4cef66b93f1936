"""Parameters: the arguments of a filter, checked once; and memory for its blocks."""

from __future__ import annotations

import re
import secrets
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bloomdupe._version import __version__
from bloomdupe.errors import (
    IncompatibleFilterError,
    SettingError,
    StoreMismatchError,
)
from bloomdupe.filter import hashing
from bloomdupe.filter.sizing import (
    BLOCK_BITS,
    check_capacity,
    check_fpp,
    check_integer,
    layer_geometry,
)
from bloomdupe.store.platform import memory_of_group, size_of_memory

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeGuard

    from bloomdupe.filter.sizing import Geometry

URL = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")
DEFAULT_FPP = 1e-6
SHARE = 4
"""By default, the blocks of a filter take at most one byte in so many."""
MOST_BYTES = 1e18


def machine_memory() -> int:
    """Return the bytes of memory that this machine, or the control group, has."""
    machine = size_of_memory()
    group = memory_of_group()
    return machine if group is None else min(machine, group)


def check_memory(value: object, name: str = "memory") -> int | None:
    """Return a number of bytes (None: the default), or raise :class:`SettingError`."""
    expected = (
        "a whole number of bytes, such as 300_000_000, or 0 to keep no block in memory"
    )
    return (
        None if value is None else check_integer(value, name, 0, MOST_BYTES, expected)
    )


@dataclass(frozen=True)
class Parameters:
    """The parameters of a filter. Filters with equal parameters can be combined."""

    capacity: int
    """n: expected keys of the first layer."""
    fpp: float
    """p: false-positive probability of the whole filter."""
    exact: bool
    """Whether all keys are exact."""
    key: bytes = field(repr=False)
    """Secret mixed into every hash."""

    @classmethod
    def checked(
        cls,
        capacity: object,
        fpp: object = None,
        exact: object = None,
        key: object = None,
    ) -> Parameters:
        """Check the user's arguments, and fill in the missing ones (None)."""
        if not isinstance(exact, (bool, type(None))):
            raise SettingError.of("exact", exact, "True or False")
        size = hashing.SECRET_BYTES
        if key is None:
            key = secrets.token_bytes(size)
        elif not isinstance(key, bytes) or len(key) != size:
            raise SettingError(
                f"key: expected {size} bytes, such as the `key` of another filter"
            )
        return cls(
            check_capacity(capacity),
            DEFAULT_FPP if fpp is None else check_fpp(fpp),
            bool(exact),
            key,
        )

    def geometry(self, number: int) -> Geometry:
        """Return the shape of a layer."""
        return layer_geometry(self.capacity, self.fpp, number)

    def check_room(self, available: int, where: str) -> None:
        """Refuse a capacity for which there are not enough bytes ``where``."""
        needed = self.geometry(0).bits // 8
        if needed > available:
            raise SettingError(
                f"capacity = {self.capacity:,} at fpp = {self.fpp:g} needs {needed:,}"
                f" bytes, but there are {available:,} bytes of {where}",
                "capacity",
            )

    def check_compatible(self, others: Parameters) -> None:
        """Raise :class:`IncompatibleFilterError` unless both are equal."""
        if self != others:
            raise IncompatibleFilterError(
                f"the filters differ: {self} and {others}; make both with the same"
                " parameters and the same `key`"
            )

    # In the header of a store

    def header(self, identity: dict[str, Any]) -> dict[str, Any]:
        """Return the record that describes a store for ever."""
        return {
            "written_by": f"bloomdupe {__version__}",
            "hash": hashing.NAME,
            "block_bits": BLOCK_BITS,
            **asdict(self),
            "key": self.key.hex(),
            "identity": identity,
        }

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Parameters:
        """Read a store's header, which is of our format: it names hash and blocks."""
        return cls(
            header["capacity"],
            header["fpp"],
            header["exact"],
            bytes.fromhex(header["key"]),
        )


def is_url(path: object) -> TypeGuard[str]:
    """Whether a filter's place is the URL of a Redis, and no directory.

    Or of anything else: as a path, it might be shown with its password.
    """
    return isinstance(path, str) and URL.match(path) is not None


def held_against(
    path: Path | str,
    header: dict[str, Any],
    wanted: dict[str, Any],
    identity: dict[str, Any],
) -> Parameters:
    """Return the parameters in a store's header, unless different ones are ``wanted``.

    Raises :class:`~bloomdupe.errors.StoreMismatchError`, which prints both.
    """
    found = Parameters.from_header(header)
    check_same(path, header["identity"], identity)
    check_same(path, vars(found), wanted)
    return found


def check_same(path: Path | str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse a store that was made with values other than the wanted values."""
    for name, value in wanted.items():
        if found.get(name) == value:
            continue
        if name == "key":
            raise StoreMismatchError(f"{path} was made with another key", name)
        raise StoreMismatchError(
            f"{path} was made with {name} = {found.get(name)!r}, but {name} ="
            f" {value!r} is asked for; give the first value, or name another place"
            " for a new store",
            name,
        )
