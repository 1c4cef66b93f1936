"""JobOnDisk: a job in a JOBDIR."""

from __future__ import annotations

import contextlib
import shutil
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.added_requests import AddedRequests, message_of
from bloomdupe.crawl.state.rules_file import change_rules, rules_of
from bloomdupe.errors import StoreError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.jobs.job import Job, Removed
from bloomdupe.jobs.places import jobs_at, store_at
from bloomdupe.jobs.reader import JobReader
from bloomdupe.jobs.state import Life
from bloomdupe.store import files
from bloomdupe.store.inbox import Inbox
from bloomdupe.store.place import Directory
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.jobs.held import HeldJob
    from bloomdupe.jobs.project import Project
    from bloomdupe.store.store import Store

STATE = "spider.state"
"""File in a JOBDIR, of Scrapy's extension."""


class JobOnDisk(Job):
    """A job in a JOBDIR, named by the JOBDIR or by the directory of its store."""

    @property
    def directory(self) -> Path:
        """The directory of the store, which must exist already."""
        return store_at(self.named)

    @property
    def new_directory(self) -> Path:
        """The directory of the store, whether it exists or not."""
        return store_at(self.named, new=True)

    @property
    def jobs_within(self) -> list[Path]:
        """See :attr:`Job.jobs_within`."""
        return jobs_at(self.named)

    @property
    def shown(self) -> str:
        """The directory of the store."""
        return str(self.new_directory)

    @property
    def identity(self) -> dict[str, Any] | None:
        """See :attr:`Job.identity`."""
        if not Directory(self.new_directory).exists():
            return None
        with self.stores() as (store,):
            identity: dict[str, Any] = store.header["identity"]
            return identity

    @contextmanager
    def stores(self) -> Iterator[list[Store]]:
        """Open the store."""
        with closing(Directory(self.directory).open(readonly=True)) as store:
            yield [store]

    @contextmanager
    def filters(self) -> Iterator[list[BloomFilter]]:
        """Open the filter."""
        with BloomFilter.open(self.directory, readonly=True) as seen:
            yield [seen]

    def rules(self) -> Rules:
        """Read the file of rules."""
        return rules_of(self.directory)

    def replace_rules(self, change: Callable[[Rules], Rules]) -> Rules:
        """Replace the file of rules."""
        return change_rules(self.directory, change)

    def life(self) -> Life:
        """Look at the lock of the store, and at its data."""
        store, written = self.new_directory, 0.0
        with contextlib.suppress(OSError):  # its reader says so
            written = (store / files.DATA).stat().st_mtime
        owner = files.owner_of(store)
        if owner is None:
            return Life(written_at=written)
        name = str(owner.process or "unknown")
        return Life(
            f"process {name}", owner.beat, frozenset([name]), written, owner.process
        )

    def hold(self, project: Project | None, *, begin: bool) -> HeldJob:
        """Open the job, or begin it, and take in what was added while it ran."""
        from bloomdupe.jobs.held import HeldJob

        path = self.new_directory if begin else self.directory
        if begin and project is not None and not Directory(path).exists():
            return HeldJob.begun(path, project)
        job = HeldJob.open(path, project)
        with ExitStack() as undo:
            undo.callback(job.close)
            AddedRequests(job.stores[0], job.add_one).take_all(
                lambda part: job.commit({0: part})
            )
            undo.pop_all()
        return job

    def hand_over(self, requests: list[SentRequest]) -> None:
        """Leave requests in the inbox."""
        Inbox(self.directory).post(message_of(requests))

    def remove(self, confirm: Callable[[Removed], None]) -> Removed:
        """Lock the job and remove its store.

        If an earlier removal was interrupted when the store had lost its name already,
        remove the rest.
        """
        rest = files.aside(self.new_directory)
        if rest.is_dir() and not self.new_directory.exists():
            removed = Removed([str(rest)], "what an interrupted reset has left", [])
            confirm(removed)
            files.delete_unfinished(rest)
            return removed
        store = self.directory
        if not Directory(store).exists():
            raise StoreError(f"{store}: there is no bloomdupe store")
        if store.is_symlink():
            raise StoreError(f"{store} is a link: name {store.resolve()}")
        # Before the lock: the data of a store that has an owner are not checked.
        contents, stays = JobReader(self).contents()
        with explained(f"cannot remove {store}", store):
            lock = files.lock_owner(store)
        with lock:
            places = [store, store.with_name(store.name + ".feeds")]
            state = store.with_name(STATE)  # which Scrapy writes beside the store
            has_state = store.name == "bloomdupe" and state.is_file()
            there = [one for one in places if one.is_dir()] + [state] * has_state
            removed = Removed([*map(str, there)], contents, stays)
            confirm(removed)
            _remove([state] * has_state, places)
        return removed


def _remove(states: list[Path], places: list[Path]) -> None:
    """Remove the state, and each directory: rename it in one step, and delete it.

    The store is in the first place, and removed last: as long as it is there, an
    interrupted removal is repeated.
    """
    for state in states:
        with explained(f"cannot remove {state}", state):
            state.unlink(missing_ok=True)
    for path in reversed(places):
        aside = files.aside(path)
        files.delete_unfinished(aside)
        if path.is_dir():
            with explained(f"cannot remove {path}", path):
                path.rename(aside)
                files.sync_directory(path.parent)
                shutil.rmtree(aside)
