"""The arguments that select pending requests, and the selection itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.cli.change.selection_arguments import add_selection
from bloomdupe.cli.change.urls_argument import add_urls
from bloomdupe.cli.progress import counted
from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.errors import SettingError, UnserializableError
from bloomdupe.frontier.pending_requests import count_pending, pending_requests
from bloomdupe.jobs.selection import Selection

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.store.store import Store

__all__ = ["add_chosen", "chosen"]


def add_chosen(parser: argparse.ArgumentParser) -> None:
    """Add URLs, ``--slot`` and ``--pattern``."""
    add_urls(parser, file=False)
    add_selection(parser)


def chosen(store: Store, options: argparse.Namespace) -> Iterator[PendingRequest]:
    """Yield the selected requests; :class:`SettingError` if no request is named."""
    if not (options.urls or options.slot or options.pattern):
        raise SettingError(
            "say which requests: URLs, --slot, or --pattern; `--pattern .` is all"
        )
    selection = Selection.of(options.slot, options.pattern)
    total = count_pending(store, options.slot)
    found = counted(pending_requests(store, options.slot), total, "requests")
    if options.urls:
        found = _of_urls(found, store, options)
    return (one for one in found if _is_meant(one, selection))


def _is_meant(one: PendingRequest, selection: Selection) -> bool:
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
    from bloomdupe.jobs.selection import find
    from bloomdupe.jobs.written import checked

    project = Project.of_store(options.project_settings, store.header["identity"])
    requests = []
    for url in options.urls:
        try:
            requests.append(checked(url))
        except ValueError as error:
            raise SettingError(str(error)) from error
    return (one for _, one in find(found, requests, project))
