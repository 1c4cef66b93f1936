"""The arguments that select requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["add_selection"]


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
