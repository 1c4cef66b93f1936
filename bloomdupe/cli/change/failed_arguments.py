"""The arguments that select failed requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.errors import SettingError
from bloomdupe.settings import FAILURE_REASONS, check_reasons

if TYPE_CHECKING:
    import argparse

__all__ = ["add_failed", "reasons_of"]


def add_failed(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--failed`` and ``--reason``; ``what`` is the help text of ``--failed``."""
    parser.add_argument("--failed", action="store_true", help=what)
    parser.add_argument(
        "--reason",
        metavar="WHY",
        help=(
            "only those that have failed so: HTTP statuses such as 503, or of"
            f" {', '.join(FAILURE_REASONS)}; several with commas between them"
        ),
    )


def reasons_of(options: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the given reasons, () for all; None without ``--failed``."""
    if options.reason is None:
        return () if options.failed else None
    if not options.failed:
        raise SettingError("--reason is about what has failed: add --failed")
    return check_reasons(options.reason, "--reason") or ()
