"""The arguments that select requests, and the pending requests that they select."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.cli.change.urls_argument import add_urls
from bloomdupe.cli.progress_bar import counted
from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.errors import SettingError, UnserializableError
from bloomdupe.frontier.pending_requests import count_pending, pending_requests
from bloomdupe.jobs.selection import Selection, find
from bloomdupe.settings import FAILURE_REASONS, check_reasons

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.store.store import Store

__all__ = ["add_failed", "add_named", "add_selection", "named_requests", "reasons_of"]


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


def named_requests(
    store: Store, options: argparse.Namespace
) -> Iterator[PendingRequest]:
    """Yield the selected requests; :class:`SettingError` if no request is named."""
    if not (options.urls or options.slot or options.pattern):
        raise SettingError(
            "no requests are selected: name URLs, --slot, or --pattern (`--pattern .`"
            " selects all)"
        )
    selection = Selection.of(options.slot, options.pattern)
    total = count_pending(store, options.slot)
    found = counted(pending_requests(store, options.slot), total, "requests")
    if options.urls:
        found = _of_urls(found, store, options)
    return (one for one in found if _is_selected(one, selection))


def _is_selected(one: PendingRequest, selection: Selection) -> bool:
    if selection.pattern is None:
        return True
    try:
        return selection.has(one.slot, summary_of(one.payload).url)
    except UnserializableError:
        return False


def _of_urls(
    found: Iterator[PendingRequest], store: Store, options: argparse.Namespace
) -> Iterator[PendingRequest]:
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.request_line import checked

    project = Project.of_store(options.project_settings, store.header["identity"])
    requests = []
    for url in options.urls:
        try:
            requests.append(checked(url))
        except ValueError as error:
            raise SettingError(str(error)) from error
    return (one for _, one in find(found, requests, project))
