"""``backup``: copy a store, also while a crawl is running."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.cli.progress_bar import bytes_read
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.filter.bloom import BloomFilter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


class Copied(NamedTuple):
    """Both directories, the number of keys, and of cookies that were not copied."""

    source: str
    target: str
    keys: int
    cookies_left_out: int


class Backup(Verb[Copied]):
    """Copies the last checkpoint, compacted."""

    name = "backup"
    help = "copy a store, also while a crawl is running"
    description = (
        "Copy the last checkpoint of a store to a new directory, compacted. A"
        " crawl may be running. Cookies are secrets, and left out unless told;"
        " tokens in pending requests or in attributes of the spider are not."
    )
    example = "backup crawls/site backup"
    needs = "directory"
    json_indent = None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the new directory."""
        parser.add_argument("target", help="directory to create")
        parser.add_argument(
            "--with-cookies",
            action="store_true",
            help="copy the cookies, too, by which the crawl is logged in",
        )

    def run(self, options: argparse.Namespace) -> Copied:
        """Copy it."""
        source = options.job.directory
        with (
            BloomFilter.open(source, readonly=True) as seen,
            bytes_read(source) as read,
        ):
            left_out = seen.backup(
                options.target, cookies=options.with_cookies, progress=read
            )
            return Copied(str(source), options.target, len(seen), left_out)

    def text(self, result: Copied) -> Iterable[str]:
        """Return the place of the copy, and its contents."""
        yield f"{result.target}: {plural(result.keys, 'URL')}"
        if result.cookies_left_out:
            yield (
                f"{result.cookies_left_out:,} cookies are left out: a crawl that goes"
                " on from it may have to log in again (--with-cookies copies them)"
            )
