"""The arguments that name URLs, singly or in a file, and the URLs read from them."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bloomdupe.cli.progress_bar import bytes_of
from bloomdupe.errors import SettingError
from bloomdupe.jobs.lines import Line, Problems, read_lines

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator


def add_urls(parser: ArgumentParser, *, file: bool = True) -> None:
    """Add URLs, and ``--from`` a ``file``."""
    parser.add_argument(
        "urls", nargs="*", metavar="URL", help="such as https://a.example/"
    )
    if file:
        parser.add_argument(
            "--from",
            dest="file",
            metavar="FILE",
            help=(
                "a file with a URL or a JSON object on each line; - is standard input"
            ),
        )


def check_named(options: Namespace) -> None:
    """Refuse a verb that is given neither URLs nor a file."""
    if not options.urls and options.file is None:
        raise SettingError("no URLs are given: name some, or a file with --from")


def add_request_options(parser: ArgumentParser) -> None:
    """Add the options of a request besides its URL."""
    parser.add_argument(
        "--callback",
        metavar="NAME",
        default="parse",
        help="the spider's method for the responses (default: %(default)s)",
    )
    parser.add_argument(
        "--priority",
        type=int,
        metavar="N",
        default=0,
        help="higher ones go first (default: %(default)s)",
    )


def given_lines(options: Namespace, problems: Problems) -> Iterator[Line]:
    """Yield the URLs that were given, and then the lines of the file.

    The former are numbered 0.
    """
    yield from (Line(0, url) for url in options.urls)
    if options.file is not None:
        with opened(options.file) as file, bytes_of(size_of_file(file)) as read:
            yield from read_lines(file, problems, read)


@contextlib.contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
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


def size_of_file(file: BinaryIO) -> int | None:
    """Return how many bytes a file has; None if it is a pipe, say."""
    try:
        return os.fstat(file.fileno()).st_size or None
    except (OSError, ValueError):
        return None
