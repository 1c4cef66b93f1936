"""The argument that names a store, and the directory that it stands for."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from bloomdupe.errors import SettingError, StoreError
from bloomdupe.filter.opening import is_url
from bloomdupe.store.files import DATA, MARKER

if TYPE_CHECKING:
    import argparse

__all__ = ["add_store", "place_of_store", "store_directory"]


def add_store(
    parser: argparse.ArgumentParser,
    jobdir: str | None,
    *,
    needed: bool = False,
    url: str = "",
) -> None:
    """Add the argument; it may be left out if there is a ``jobdir``, unless needed.

    ``url`` completes the help text of verbs that also accept a URL.
    """
    default = None if needed else jobdir
    parser.add_argument(
        "store",
        nargs="?" if default else None,
        default=default,
        help="a JOBDIR, or the directory of a store"
        + (f"; or the URL of {url} on Redis" if url else "")
        + (f" (default: {default})" if default else ""),
    )


def store_directory(place: str) -> Path:
    """Return the store in a JOBDIR, or the directory itself."""
    directory = _directory(place)
    inside = directory / "bloomdupe"
    return inside if inside.is_dir() else directory


def place_of_store(place: str) -> Path:
    """Return the store in a JOBDIR, whether it exists or not.

    A directory that holds a store's files is that store, and so is a path that ends
    in ``bloomdupe``. Any other path is a JOBDIR.
    """
    directory = _directory(place)
    inside = directory / "bloomdupe"
    if inside.is_dir():
        return inside
    is_store = directory.name == "bloomdupe" or any(
        (directory / name).exists() for name in (DATA, MARKER)
    )
    return directory if is_store else inside


def _directory(place: str) -> Path:
    if is_url(place):  # which may hold a password, so it is not repeated
        raise SettingError(
            "a URL stands where a JOBDIR is expected: of a filter on Redis, `bloomdupe"
            " info` is the only verb; of a crawl there, also list,"
            " top, report, import, export, collect and reset"
        )
    directory = Path(place)
    try:
        if not stat.S_ISDIR(directory.stat().st_mode):
            raise NotADirectoryError  # noqa: TRY301 - as if a slash came after it
    except FileNotFoundError:
        pass  # it is for the verb to say that nothing is there, or to make it
    except NotADirectoryError as error:
        raise StoreError(
            f"{place[:80]} is not a directory; name a JOBDIR, or the directory of a"
            " store"
        ) from error
    except OSError as error:
        raise SettingError(f"{place[:80]}: {error.strerror}") from error
    except ValueError as error:  # a zero byte, or half of a surrogate pair
        raise SettingError(f"{place[:80]!r} cannot be a path: {error}") from error
    return directory
