"""``compact``: shrink the file of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.progress_bar import bytes_read
from bloomdupe.cli.verb import Verb
from bloomdupe.filter.bloom import BloomFilter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


class Sizes(NamedTuple):
    """A store, and its bytes on disk before and after."""

    store: str
    before: int
    after: int


class Compact(Verb[Sizes]):
    """Folds the journal into the pages and leaves out free space."""

    name = "compact"
    help = "shrink the file of a store"
    description = (
        "Fold the journal of a store into its pages and shrink its file. No crawl"
        " may be running."
    )
    example = "compact crawls/site"
    needs = "directory"
    store_required = False
    json_indent = None

    def run(self, options: argparse.Namespace) -> Sizes:
        """Compact it."""
        store = options.job.directory
        with BloomFilter.open(store) as seen, bytes_read(store) as read:
            before = seen.info().disk_bytes
            seen.compact(read)
            return Sizes(options.store, before, seen.info().disk_bytes)

    def text(self, result: Sizes) -> Iterable[str]:
        """Return both sizes in one line."""
        store, before, after = result
        yield f"{store}: {before:,} bytes before, {after:,} bytes now"

    def json(self, result: Sizes) -> dict[str, Any]:
        """Return both sizes."""
        return {"bytes_before": result.before, "bytes_after": result.after}
