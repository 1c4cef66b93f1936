"""JobOnDisk: a job in a JOBDIR; and the directories in which jobs are."""

from __future__ import annotations

import contextlib
import os
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from bloomdupe.crawl.added_requests import NOTE, AddedRequests
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.state.rules import change_rules, rules_of
from bloomdupe.errors import StoreError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.contents import stored_record
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.jobs.held import HeldJob, order_of
from bloomdupe.jobs.job import Job, Removed
from bloomdupe.jobs.view import Life
from bloomdupe.store import files
from bloomdupe.store.inbox import Inbox
from bloomdupe.store.lmdb.lmdb_store import Directory
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.project import Project
    from bloomdupe.store.store import Store


SCRAPYS = ("requests.queue", "requests.seen")
"""Names in a JOBDIR of Scrapy's own scheduler."""
PLACEHOLDER = "%(spider)s"
"""A crawl puts the name of its spider in its place."""


def _jobs_in(directory: Path) -> list[Path]:
    """Return the jobs in a directory, and in the directories in it."""
    stores = chain.from_iterable(map(directory.glob, ("*/bloomdupe", "*/*/bloomdupe")))
    # Of a job of another user, its reader says so.
    return sorted(
        one.parent
        for one in stores
        if one.is_dir()
        and ((one / files.DATA).is_file() if os.access(one, os.X_OK) else True)
    )


STATE = "spider.state"
"""File in a JOBDIR, of Scrapy's extension."""


class JobOnDisk(Job):
    """A job in a JOBDIR, named by the JOBDIR or by the directory of its store."""

    @property
    def path(self) -> Path:
        """The store in the named JOBDIR, or the named directory if it is a store.

        It need not exist: a path that ends in ``bloomdupe`` is a store then, and any
        other path is a JOBDIR. But a crawl never has a job in a path with the
        ``PLACEHOLDER``.
        """
        directory = Path(self.named)
        if directory.exists() and not directory.is_dir():
            raise StoreError(
                f"{self.named} is not a directory; name a JOBDIR, or the directory of a"
                " store"
            )
        if PLACEHOLDER in self.named and not directory.exists():
            raise self.missing
        inside, is_store = directory / "bloomdupe", files.holds_store(directory)
        if inside.is_dir() or not (is_store or directory.name == "bloomdupe"):
            return inside
        return directory

    @property
    def directory(self) -> Path:
        """The directory of the store, which must exist already."""
        if not self.path.is_dir():
            raise self.missing
        return self.path

    @property
    def jobs_within(self) -> Sequence[Job]:
        """The jobs in the named directory, if it is no job itself; by name."""
        if self.path.is_dir():
            return []
        return [JobOnDisk(str(jobdir)) for jobdir in _jobs_in(Path(self.named))]

    @property
    def shown(self) -> str:
        """The directory of the store."""
        return str(self.path)

    @property
    def missing(self) -> StoreError:
        """The error if there is no job; it says what may be meant."""
        named = Path(self.named)
        near, hint = named if named.exists() else named.parent, ""
        if any((named / name).exists() for name in SCRAPYS):
            hint = (
                ". It is a JOBDIR of Scrapy's own scheduler: `bloomdupe import"
                f" {named} --spider NAME` imports it"
            )
        elif jobs := _jobs_in(near):
            hint = f", but `bloomdupe info {near}` shows {plural(len(jobs), 'job')}"
        return StoreError(f"{named}: there is no bloomdupe store{hint}")

    def places(self) -> list[Directory]:
        """Return the directory of the store, if there is one."""
        place = Directory(self.path)
        return [place] if place.exists() else []

    def rules(self) -> Rules:
        """Read the file of rules."""
        return rules_of(self.directory)

    def replace_rules(self, change: Callable[[Rules], Rules]) -> Rules:
        """Replace the file of rules."""
        return change_rules(self.directory, change)

    def life(self) -> Life:
        """Look at the lock of the store, and at its data."""
        store, written = self.path, 0.0
        with contextlib.suppress(OSError):  # its reader says so
            written = (store / files.DATA).stat().st_mtime
        owner = files.owner_of(store)
        if owner is None:
            return Life(written_at=written)
        name = str(owner.process or "unknown")
        return Life(f"process {name}", owner.heartbeat, frozenset([name]), written)

    def sent(self, stores: Sequence[Store]) -> Iterator[SentRequest]:
        """Yield the requests in the inbox, but for a message that was taken in."""
        inbox = Inbox(self.directory)
        done = stored_record(stores[0].now)["notes"].get(NOTE)
        for name in inbox.names():
            # Its owner says so if one cannot be read; or it has just taken it in.
            with contextlib.suppress(ValueError):
                if name != done:
                    yield from [*map(SentRequest.read, inbox.read(name))]

    def hold(self, project: Project | None, *, begin: bool = False) -> HeldJob:
        """Open the job, or begin it, and take in what was added while it ran."""
        path = self.path if begin else self.directory
        if begin and project is not None and not Directory(path).exists():
            return HeldJob.begun(path, project)
        with ExitStack() as undo:
            seen = undo.enter_context(BloomFilter.open(path))
            frontier = Frontier(seen, order=order_of(project))
            job = HeldJob(frontier, rules_of(path), seen.close)
            AddedRequests(frontier, job.add_one).take_all()
            undo.pop_all()
        return job

    def hand_over(self, requests: list[SentRequest]) -> None:
        """Leave requests in the inbox."""
        Inbox(self.directory).post([one.packed for one in requests])

    def remove(self, confirm: Callable[[Removed], None]) -> Removed:
        """Lock the job and remove its store, or what is left of it."""
        store = self.path
        left = files.removed_name(store)
        if left.is_dir() and not store.exists():  # an interrupted call left it
            removed = Removed([str(left)], "the rest of a store")
            confirm(removed)
            files.delete_unfinished(left)
            return removed
        self.begun()
        if store.is_symlink():
            raise StoreError(f"{store} is a link: name {store.resolve()}")
        # Before the lock: the data of a store that has an owner are not checked.
        contents = self.contents()
        with explained(f"cannot remove {store}", store):
            lock = files.lock_owner(store)
        with lock:
            places = [store, store.with_name(store.name + ".feeds")]
            state = store.with_name(STATE)  # which Scrapy writes beside the store
            has_state = store.name == "bloomdupe" and state.is_file()
            there = [one for one in places if one.is_dir()] + [state] * has_state
            removed = Removed([*map(str, there)], contents)
            confirm(removed)
            # The store comes last: as long as it is there, it can be removed again.
            with explained(f"cannot remove {store}", store):
                if has_state:
                    state.unlink()
                for path in reversed(places):
                    doomed = files.removed_name(path)
                    files.delete_unfinished(doomed)
                    if path.is_dir():
                        path.rename(doomed)
                        files.sync_directory(path.parent)
                        files.delete_unfinished(doomed)
        return removed
