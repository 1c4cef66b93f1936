"""The arguments that name URLs and select requests, and what is read from them."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bloomdupe.cli.output import warn
from bloomdupe.errors import SettingError
from bloomdupe.jobs.lines import Line, Problems, read_lines
from bloomdupe.jobs.listed import Selection
from bloomdupe.jobs.reader import JobReader
from bloomdupe.settings import FAILURE_REASONS, check_reasons
from bloomdupe.store.progress import Progress

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from bloomdupe.jobs.job import Job


def check_named(options: Namespace) -> None:
    """Refuse a verb that is given neither URLs nor a file."""
    if not options.urls and options.file is None:
        raise SettingError("no URLs are given: name some, or a file with --from")


def given_lines(options: Namespace, problems: Problems) -> Iterator[Line]:
    """Yield the URLs that were given, and then the lines of the file.

    The former are numbered 0.
    """
    yield from (Line(0, url) for url in options.urls)
    if options.file is not None:
        with _opened(options.file) as file:
            task = f"Reading {options.file}"
            progress = Progress(task, _size_of(file), "MB", scale=10**6)
            yield from read_lines(file, problems, progress.passed)


@contextlib.contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input; :class:`SettingError` if it cannot be opened."""
    if name == "-":
        if sys.stdin is None:  # it was closed before the program began
            raise SettingError("cannot read standard input: it is closed")
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", error)
        raise SettingError(f"cannot read {name}: {reason}") from error
    with file:
        yield file


def _size_of(file: BinaryIO) -> int | None:
    """Return how many bytes a file has; None if it is a pipe, say."""
    try:
        return os.fstat(file.fileno()).st_size or None
    except (OSError, ValueError):
        return None


def selection_of(options: Namespace) -> Selection:
    """Return the given selection."""
    return Selection.of(options.slot, options.pattern)


def warn_if_unknown(job: Job, slot: str | None) -> None:
    """Say so if no request of a slot is pending or failed: its name may be mistyped."""
    if slot is not None and not JobReader(job).has_slot(slot):
        warn(f"the job has no slot {slot!r}: no request of it is pending or failed")


def reasons_of(options: Namespace) -> tuple[str, ...] | None:
    """Return the given reasons, () for all; None without ``--failed``."""
    if options.reason is None:
        return () if options.failed else None
    if not options.failed:
        raise SettingError("--reason selects failed requests: add --failed")
    try:
        return check_reasons(options.reason, "--reason") or ()
    except SettingError as error:
        failed = JobReader(options.job).failed_requests().requests
        has = ", ".join(sorted({one.option for one in failed})) or "none"
        raise SettingError(
            f"--reason {options.reason!r}: expected HTTP statuses such as 503, or"
            f" {', '.join(FAILURE_REASONS)}; reasons in this job: {has}"
        ) from error
