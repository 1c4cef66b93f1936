"""The arguments that select requests, and the pending requests that they select."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.cli.change.urls_argument import add_urls
from bloomdupe.cli.output import warn
from bloomdupe.cli.progress_bar import counted
from bloomdupe.errors import SettingError
from bloomdupe.jobs.selection import Selection
from bloomdupe.settings import FAILURE_REASONS, check_reasons

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from bloomdupe.jobs.job_contract import Job
    from bloomdupe.jobs.project import Project


def add_selection(parser: ArgumentParser) -> None:
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


def warn_if_unknown(job: Job, slot: str) -> None:
    """Say so if no request of a slot is pending or failed: its name may be mistyped."""
    selection = Selection(slot)
    pending = next(job.requests(selection, counted), None)
    if pending is None and not job.failed_requests(selection, ()):
        warn(f"the job has no slot {slot!r}: no request of it is pending or failed")


def add_failed(parser: ArgumentParser, meaning: str) -> None:
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


def reasons_of(options: Namespace) -> tuple[str, ...] | None:
    """Return the given reasons, () for all; None without ``--failed``."""
    if options.reason is None:
        return () if options.failed else None
    if not options.failed:
        raise SettingError("--reason selects failed requests: add --failed")
    try:
        return check_reasons(options.reason, "--reason") or ()
    except SettingError as error:
        failed = options.job.failed_requests(Selection(), ())
        has = ", ".join(sorted({one.option for one in failed})) or "none"
        raise SettingError(
            f"--reason {options.reason!r}: expected HTTP statuses such as 503, or"
            f" {', '.join(FAILURE_REASONS)}; reasons in this job: {has}"
        ) from error


def add_named(parser: ArgumentParser) -> None:
    """Add URLs, ``--slot`` and ``--pattern``."""
    add_urls(parser, file=False)
    add_selection(parser)


def pages_of(options: Namespace, project: Callable[[], Project]) -> dict[bytes, str]:
    """Return the URL of each fingerprint of the given URLs.

    The ``project`` is asked for if URLs are given.
    """
    pages = {}
    if options.urls:
        from bloomdupe.jobs.request_line import checked

        try:
            for url in options.urls:
                request = checked(url)
                key, _ = project().key_of(request)
                pages[key] = request.url  # as stored, e.g. with an ASCII host
        except ValueError as error:
            raise SettingError(str(error)) from error
    return pages
