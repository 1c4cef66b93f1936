"""Neighbours: the jobs near a path, and what the user may have meant by it."""

from __future__ import annotations

import contextlib
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import SettingError, StoreError
from bloomdupe.store import files

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["jobs_in", "no_job"]

SCRAPYS = ("requests.queue", "requests.seen")
"""Names in a JOBDIR of Scrapy's own scheduler."""
MOST_NAMED = 3


def jobs_in(directory: Path) -> list[Path]:
    """Return the JOBDIRs in a directory, and in the directories in it, by name.

    A JOBDIR is its own only job. Raises :class:`~bloomdupe.errors.SettingError` if it
    cannot be read.
    """
    try:
        if _is_job(directory):
            return [directory]
        return list(_jobs_in(directory, depth=2))
    except OSError as error:
        raise SettingError(f"{directory}: {error.strerror}") from error


def _is_job(path: Path) -> bool:
    return (path / "bloomdupe" / files.DATA).is_file()


def _jobs_in(directory: Path, depth: int) -> Iterator[Path]:
    for inside in sorted(directory.iterdir()):
        if _is_job(inside):
            yield inside
        elif depth > 1 and inside.is_dir() and not inside.is_symlink():
            yield from _jobs_in(inside, depth - 1)


def no_job(path: Path) -> StoreError:
    """Return the error for a path without a store, with the path that may be meant."""
    return StoreError(f"{path}: there is no bloomdupe store{_hint(path)}")


def _hint(path: Path) -> str:
    if not path.exists():
        if not path.parent.is_dir():
            return ""
        names = [one.name for one in path.parent.iterdir() if one.is_dir()]
        close = get_close_matches(path.name, names, 1)
        return _question([*_named(path), *(path.parent / one for one in close)])
    if any((path / name).exists() for name in SCRAPYS):
        return (
            f". It is a JOBDIR of Scrapy's own scheduler: `bloomdupe import {path}"
            " --spider NAME` imports it"
        )
    jobs = jobs_in(path)
    if not jobs:
        return _question(_named(path))
    some = ", ".join(map(str, jobs[:MOST_NAMED])) + ", ..." * (len(jobs) > MOST_NAMED)
    return (
        f", but {plural(len(jobs), 'job')} ({some}): name a job;"
        f" `bloomdupe jobs {path}` shows all"
    )


def _named(path: Path) -> list[Path]:
    """Return the jobs in directories here that have a name, such as a spider's."""
    here = Path()
    if path != here / path.name:
        return []
    with contextlib.suppress(OSError):  # what cannot be read gives no hints
        return [one for one in _jobs_in(here, depth=2) if one.name == path.name]
    return []


def _question(meant: list[Path]) -> str:
    return f"; did you mean {meant[0]}?" if meant else ""
