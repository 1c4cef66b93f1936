"""The arguments that select requests, and the pending requests that they select."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.cli.change.urls_argument import add_urls
from bloomdupe.crawl.changes.change import Dropping
from bloomdupe.crawl.changes.selection import Selection
from bloomdupe.errors import SettingError
from bloomdupe.settings import FAILURE_REASONS, check_reasons

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from bloomdupe.jobs.project import Project

__all__ = [
    "add_failed",
    "add_named",
    "add_selection",
    "dropping_of",
    "pages_of",
    "reasons_of",
]


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add ``--slot`` and ``--pattern``; see ``Selection.of()``."""
    parser.add_argument(
        "--slot",
        metavar="SLOT",
        help="only requests of this slot (a host, unless the project names others)",
    )
    parser.add_argument(
        "--pattern",
        metavar="REGEX",
        help="only URLs in which this regular expression is found",
    )


def add_failed(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add ``--failed`` and ``--reason``; ``meaning`` is the help text of the former."""
    parser.add_argument("--failed", action="store_true", help=meaning)
    parser.add_argument(
        "--reason",
        metavar="REASON",
        help=(
            "only requests that failed for this reason: HTTP statuses such as 503, or"
            f" {', '.join(FAILURE_REASONS)}; several are separated by commas"
        ),
    )


def reasons_of(options: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the given reasons, () for all; None without ``--failed``."""
    if options.reason is None:
        return () if options.failed else None
    if not options.failed:
        raise SettingError("--reason selects failed requests: add --failed")
    return check_reasons(options.reason, "--reason") or ()


def add_named(parser: argparse.ArgumentParser) -> None:
    """Add URLs, ``--slot`` and ``--pattern``."""
    add_urls(parser, file=False)
    add_selection(parser)


def dropping_of(
    options: argparse.Namespace, project: Callable[[], Project]
) -> Dropping:
    """Return the change that removes the selected requests.

    The ``project`` is asked for if URLs are named. Raises :class:`SettingError` if no
    request is named.
    """
    if not (options.urls or options.slot or options.pattern):
        raise SettingError(
            "no requests are selected: name URLs, --slot, or --pattern (`--pattern .`"
            " selects all)"
        )
    return Dropping(
        Selection.of(options.slot, options.pattern), pages_of(options, project)
    )


def pages_of(
    options: argparse.Namespace, project: Callable[[], Project]
) -> dict[bytes, str]:
    """Return the named URLs by their fingerprints; see :func:`dropping_of`."""
    if not options.urls:
        return {}
    from bloomdupe.jobs.request_line import checked

    pages = {}
    for url in options.urls:
        try:
            pages[project().key_of(checked(url))[0]] = url
        except ValueError as error:
            raise SettingError(str(error)) from error
    return pages
