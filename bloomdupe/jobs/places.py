"""Places: finds the store that a user means by a path, or says what may be meant."""

from __future__ import annotations

import contextlib
import stat
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import SettingError, StoreError
from bloomdupe.store import files

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRAPYS = ("requests.queue", "requests.seen")
"""Names in a JOBDIR of Scrapy's own scheduler."""
MOST_NAMED = 3


def store_at(named: str, *, new: bool = False) -> Path:
    """Return the store in the named JOBDIR, or the named directory if it is a store.

    A ``new`` one need not exist: a path that ends in ``bloomdupe`` is a store then,
    and any other path is a JOBDIR. Raises :class:`StoreError` if there is none.
    """
    directory = _checked(named)
    inside = directory / "bloomdupe"
    if inside.is_dir():
        return inside
    if _is_store(directory):
        return directory
    if not new:
        raise _no_job(directory)
    return directory if directory.name == "bloomdupe" else inside


def jobs_at(named: str) -> list[Path]:
    """Return the JOBDIRs in the named directory by name, unless it is a job itself."""
    directory = _checked(named)
    is_one = _is_job(directory) or _is_store(directory)
    return [] if is_one or not directory.is_dir() else _jobs(directory)


def _checked(named: str) -> Path:
    directory = Path(named)
    try:
        if not stat.S_ISDIR(directory.stat().st_mode):
            raise NotADirectoryError  # noqa: TRY301 - as if a slash came after it
    except FileNotFoundError:
        pass  # the operation reports that nothing is there, or makes it
    except NotADirectoryError as error:
        raise StoreError(
            f"{named} is not a directory; name a JOBDIR, or the directory of a store"
        ) from error
    except OSError as error:
        raise SettingError(f"{named[:80]}: {error.strerror}") from error
    except ValueError as error:  # a zero byte, or half of a surrogate pair
        raise SettingError(f"{named[:80]!r} cannot be a path: {error}") from error
    return directory


def _is_store(directory: Path) -> bool:
    """Whether a directory holds the files of a store itself."""
    return any((directory / name).exists() for name in (files.DATA, files.MARKER))


def _is_job(path: Path) -> bool:
    store = path / "bloomdupe"
    with contextlib.suppress(PermissionError):
        try:
            return (store / files.DATA).is_file()
        except PermissionError:  # of another user; its reader says so
            return store.is_dir()
    return False


def _jobs(directory: Path) -> list[Path]:
    try:
        return list(_jobs_in(directory, depth=2))
    except OSError as error:
        raise StoreError(f"{directory}: {error.strerror}") from error


def _jobs_in(directory: Path, depth: int) -> Iterator[Path]:
    for inside in sorted(directory.iterdir()):
        if _is_job(inside):
            yield inside
        elif depth > 1 and inside.is_dir() and not inside.is_symlink():
            with contextlib.suppress(PermissionError):
                yield from _jobs_in(inside, depth - 1)


def _no_job(path: Path) -> StoreError:
    """Return the error for a path without a store, with the path that may be meant."""
    return StoreError(f"{path}: there is no bloomdupe store{_hint(path)}")


def _hint(path: Path) -> str:
    if any((path / name).exists() for name in SCRAPYS):
        return (
            f". It is a JOBDIR of Scrapy's own scheduler: `bloomdupe import {path}"
            " --spider NAME` imports it"
        )
    near = path if path.exists() else path.parent
    jobs: list[Path] = []
    with contextlib.suppress(OSError):  # what cannot be read gives no hints
        jobs = [*_jobs_in(near, 2)]
    # Such as the name of a spider, whose job lies deeper.
    names = {part: job for job in jobs for part in (job.parent.name, job.name)}
    if near != path and (close := get_close_matches(path.name, names, 1)):
        return f"; did you mean {names[close[0]]}?"
    if near != path or not jobs:
        return ""
    some = ", ".join(map(str, jobs[:MOST_NAMED])) + ", ..." * (len(jobs) > MOST_NAMED)
    return (
        f", but {plural(len(jobs), 'job')} ({some}): name a job;"
        f" `bloomdupe info {path}` shows all"
    )
