"""JobOnDisk: a job in a JOBDIR; and the directories in which jobs are."""

from __future__ import annotations

import contextlib
import shutil
import stat
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.added_requests import AddedRequests, message_of
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.state.rules import change_rules, rules_of
from bloomdupe.errors import SettingError, StoreError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.frontier import Frontier
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
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.jobs.project import Project


SCRAPYS = ("requests.queue", "requests.seen")
"""Names in a JOBDIR of Scrapy's own scheduler."""
MOST_NAMED = 3
PLACEHOLDER = "%(spider)s"
"""A crawl puts the name of its spider in its place."""


def store_at(named: str, *, new: bool = False) -> Path:
    """Return the store in the named JOBDIR, or the named directory if it is a store.

    A ``new`` one need not exist: a path that ends in ``bloomdupe`` is a store then,
    and any other path is a JOBDIR. Raises :class:`StoreError` if there is none. A crawl
    never has a job in a path with the ``PLACEHOLDER``, so none is begun there.
    """
    directory = _checked(named)
    inside = directory / "bloomdupe"
    if inside.is_dir():
        return inside
    if _is_store(directory):
        return directory
    if not new or PLACEHOLDER in named:
        raise StoreError(f"{directory}: there is no bloomdupe store{_hint(directory)}")
    return directory if directory.name == "bloomdupe" else inside


def _checked(named: str) -> Path:
    directory = Path(named)
    try:
        if not stat.S_ISDIR(directory.stat().st_mode):
            raise NotADirectoryError
    except FileNotFoundError:
        pass  # the operation reports that nothing is there, or makes it
    except NotADirectoryError as error:
        raise StoreError(
            f"{named} is not a directory; name a JOBDIR, or the directory of a store"
        ) from error
    except (OSError, ValueError) as error:  # a zero byte, or half of a surrogate pair
        reason = getattr(error, "strerror", error)
        raise SettingError(f"{named[:80]!r} cannot be a path: {reason}") from error
    return directory


def _is_store(directory: Path) -> bool:
    """Whether a directory holds the files of a store itself."""
    return any((directory / name).exists() for name in (files.DATA, files.MARKER))


def _is_job(path: Path) -> bool:
    store = path / "bloomdupe"
    with contextlib.suppress(PermissionError):
        try:
            return (store / files.DATA).is_file()
        except PermissionError:  # of another user; its reader says so
            return store.is_dir()
    return False


def _jobs_in(directory: Path, depth: int) -> Iterator[Path]:
    for inside in sorted(directory.iterdir()):
        if _is_job(inside):
            yield inside
        elif depth > 1 and inside.is_dir() and not inside.is_symlink():
            with contextlib.suppress(PermissionError):
                yield from _jobs_in(inside, depth - 1)


def _hint(path: Path) -> str:
    """Say what may be meant by a path without a store."""
    if any((path / name).exists() for name in SCRAPYS):
        return (
            f". It is a JOBDIR of Scrapy's own scheduler: `bloomdupe import {path}"
            " --spider NAME` imports it"
        )
    near = path if path.exists() else path.parent
    jobs: list[Path] = []
    with contextlib.suppress(OSError):  # what cannot be read gives no hints
        jobs = [*_jobs_in(near, 2)]
    if not jobs:
        stands = f": {PLACEHOLDER} stands for the name of a spider"
        return stands if PLACEHOLDER in str(path) else ""
    some = ", ".join(map(str, jobs[:MOST_NAMED])) + ", ..." * (len(jobs) > MOST_NAMED)
    return (
        f", but {plural(len(jobs), 'job')} in {near} ({some}): name a job;"
        f" `bloomdupe info {near}` shows all"
    )


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
    def jobs_within(self) -> Sequence[Job]:
        """The jobs in the named directory, if it is no job itself; by name."""
        directory = _checked(self.named)
        if _is_job(directory) or _is_store(directory) or not directory.is_dir():
            return []
        try:
            return [JobOnDisk(str(jobdir)) for jobdir in _jobs_in(directory, depth=2)]
        except OSError as error:
            raise StoreError(f"{directory}: {error.strerror}") from error

    @property
    def shown(self) -> str:
        """The directory of the store."""
        return str(self.new_directory)

    @property
    def identity(self) -> dict[str, Any] | None:
        """What distinguishes it from any other job."""
        if not Directory(self.new_directory).exists():
            return None
        with self.stores() as (store,):
            identity: dict[str, Any] = store.header["identity"]
            return identity

    @contextmanager
    def places(self) -> Iterator[list[Directory]]:
        """Give the directory of the store."""
        place = Directory(self.directory)
        if not place.exists():
            raise StoreError(f"{place.shown}: there is no bloomdupe store")
        yield [place]

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
            f"process {name}",
            owner.heartbeat,
            frozenset([name]),
            written,
            owner.process,
        )

    def hold(self, project: Project | None, *, begin: bool = False) -> HeldJob:
        """Open the job, or begin it, and take in what was added while it ran."""
        path = self.new_directory if begin else self.directory
        if begin and project is not None and not Directory(path).exists():
            return HeldJob.begun(path, project)
        with ExitStack() as undo:
            seen = undo.enter_context(BloomFilter.open(path))
            frontier = Frontier(seen, **order_of(project))
            job = HeldJob(frontier, rules_of(path), seen.close)
            AddedRequests(frontier, job.add_one).take_all()
            undo.pop_all()
        return job

    def hand_over(self, requests: list[SentRequest]) -> None:
        """Leave requests in the inbox."""
        Inbox(self.directory).post(message_of(requests))

    def remove(self, confirm: Callable[[Removed], None]) -> Removed:
        """Lock the job and remove its store."""
        with self.places() as (place,):  # or there is none
            store = place.path
        if store.is_symlink():
            raise StoreError(f"{store} is a link: name {store.resolve()}")
        # Before the lock: the data of a store that has an owner are not checked.
        contents, stays = self.contents()
        with explained(f"cannot remove {store}", store):
            lock = files.lock_owner(store)
        with lock:
            places = [store, store.with_name(store.name + ".feeds")]
            state = store.with_name(STATE)  # which Scrapy writes beside the store
            has_state = store.name == "bloomdupe" and state.is_file()
            there = [one for one in places if one.is_dir()] + [state] * has_state
            removed = Removed([*map(str, there)], contents, stays)
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
                        shutil.rmtree(doomed)
        return removed
