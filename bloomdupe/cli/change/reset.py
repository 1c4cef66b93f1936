"""``reset``: remove a store, so that its job begins anew."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.output import warn
from bloomdupe.cli.store_argument import add_store, store_directory
from bloomdupe.cli.verb import Verb
from bloomdupe.errors import BloomDupeError, SettingError, StoreError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.opening import is_url
from bloomdupe.jobs.overview import overview
from bloomdupe.store import files
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from pathlib import Path

    from bloomdupe.store.descriptor import Descriptor

__all__ = ["Reset"]

REMOVING = ".removing"


class Removed(NamedTuple):
    """The removed store, and a description of its contents."""

    removed: list[str]
    held: str
    stays: list[str]
    """Output files, which are the user's."""


class Reset(Verb[Removed]):
    """Removes the store of a job."""

    name = "reset"
    help = "begin a job anew: remove all that it remembers"
    description = (
        "Remove the store of a job, so that the next run begins anew: what was seen,"
        " what waits, cookies, spider.state, and counts. Output files stay. What is"
        " removed is said first, and has to be confirmed, by typing yes or by --yes."
        " The job must not be running. `backup` makes a copy before. A crawl that"
        " workers share on Redis is named by its URL, redis://host:6379/0#name: all its"
        " keys are removed, output that was not collected included."
    )
    example = "reset crawls/site"

    def add_arguments(
        self,
        parser: argparse.ArgumentParser,
        jobdir: str | None,
    ) -> None:
        """Add the store, and ``--yes``."""
        add_store(parser, jobdir, needed=True, url="a crawl")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def run(self, options: argparse.Namespace) -> Removed:
        """Ask, then remove."""
        if is_url(options.store):
            return _on_redis(options.store, ask=not options.yes)
        store = store_directory(options.store)
        if not Store.exists(store):
            raise StoreError(f"{store}: there is no bloomdupe store")
        # Before the lock: the data of a store that has an owner are not checked.
        held, stays = _held(store)
        lock = _lock(store)
        try:
            places = [store, store.with_name(store.name + ".feeds")]
            places = [place for place in places if place.is_dir()]
            if not options.yes:
                _confirm([str(place) for place in places], held)
            for place in places:
                _remove(place)
        finally:
            lock.close()
        return Removed([str(place) for place in places], held, stays)

    def text(self, result: Removed) -> Iterable[str]:
        """Return a line about the removed store, and one for each file that stays."""
        yield f"removed: {', '.join(result.removed)}: {result.held}"
        yield from (f"stays: {name}" for name in result.stays)

    def json(self, result: Removed) -> dict[str, Any]:
        """Return all of it."""
        return result._asdict()


def _on_redis(url: str, *, ask: bool) -> Removed:
    from bloomdupe.jobs.shared_removal import removal_of

    crawl = removal_of(url)
    if ask:
        _confirm([crawl.shown], crawl.held)
    crawl.remove()
    return Removed([crawl.shown], crawl.held, [])


def _lock(store: Path) -> Descriptor:
    try:
        return files.lock_owner(store)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot remove {store}: {error}") from error


def _held(store: Path) -> tuple[str, list[str]]:
    """Describe the contents of a store, even if it is damaged; and its output files."""
    try:
        with BloomFilter.open(store, readonly=True, allow_network_fs=True) as seen:
            urls = len(seen)
        job = overview(store)
    except BloomDupeError as error:
        return f"it cannot be read ({error})", []
    if job is None:
        return f"{urls:,} URLs seen", []
    held = f"{urls:,} URLs seen, {job.pending:,} requests waiting, {job.pages:,} pages"
    return held, [output.uri for output in job.outputs]


def _confirm(places: list[str], held: str) -> None:
    names = ", ".join(places)
    if not sys.stdin.isatty():
        raise SettingError(
            f"this removes {names}: {held}. Nobody is there to confirm it; --yes does"
        )
    warn(f"This removes {names}: {held}.")
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != "yes":
        raise SettingError("nothing was removed")


def _remove(place: Path) -> None:
    """Rename a directory in one step, and then delete it."""
    aside = place.with_name(place.name + REMOVING)
    files.delete_unfinished(aside)
    try:
        place.rename(aside)
        files.sync_directory(place.parent)
        shutil.rmtree(aside)
    except OSError as error:
        raise StoreError(f"cannot remove {place}: {error}") from error
