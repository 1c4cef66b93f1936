"""JobOnDisk: a job in a JOBDIR, and the jobs near a path."""

from __future__ import annotations

import contextlib
import shutil
import stat
import time
from contextlib import closing, contextmanager, nullcontext
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bloomdupe.crawl.progress.pace import duration, plural
from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.crawl.state.rules_file import RulesFile
from bloomdupe.errors import (
    BloomDupeError,
    SettingError,
    StoreError,
    StoreMismatchError,
    UnserializableError,
)
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.pending_requests import count_pending, pending_requests
from bloomdupe.jobs.job_contract import Job, ListedRequest, Removal, Ruled
from bloomdupe.jobs.on_disk.state_on_disk import FailureReader, StoreReader
from bloomdupe.jobs.overview import Description
from bloomdupe.jobs.view import FailedRequests
from bloomdupe.store import files
from bloomdupe.store.place import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from scrapy.settings import Settings

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.job_contract import Watched
    from bloomdupe.jobs.on_disk.changing import Changing
    from bloomdupe.jobs.selection import Selection
    from bloomdupe.store.descriptor import Descriptor
    from bloomdupe.store.store import Store


PAUSE = 0.05
"""Seconds between two looks for a process that ends."""
STATE = "spider.state"
"""File in a JOBDIR, of Scrapy's extension."""


class JobOnDisk(Job):
    """A job in a JOBDIR, named by the JOBDIR or by the directory of its store."""

    argument: ClassVar[str] = "a JOBDIR, or the directory of a store"
    kind: ClassVar[str] = "a job in a directory"

    @property
    def directory(self) -> Path:
        """The store in the JOBDIR, or the directory itself."""
        directory = self._checked()
        inside = directory / "bloomdupe"
        if inside.is_dir():
            return inside
        if not _is_store(directory):
            raise no_job(directory)
        return directory

    @property
    def jobs_within(self) -> list[Path]:
        """See :attr:`Job.jobs_within`."""
        directory = self._checked()
        is_one = _is_job(directory) or _is_store(directory)
        return [] if is_one or not directory.is_dir() else jobs_in(directory)

    @property
    def new_directory(self) -> Path:
        """The store in the JOBDIR, whether it exists or not.

        A directory that holds a store's files is that store, and so is a path that ends
        in ``bloomdupe``. Any other path is a JOBDIR.
        """
        directory = self._checked()
        inside = directory / "bloomdupe"
        if inside.is_dir():
            return inside
        is_store = directory.name == "bloomdupe" or _is_store(directory)
        return directory if is_store else inside

    def _checked(self) -> Path:
        named = self._named
        directory = Path(named)
        try:
            if not stat.S_ISDIR(directory.stat().st_mode):
                raise NotADirectoryError  # noqa: TRY301 - as if a slash came after it
        except FileNotFoundError:
            pass  # the operation reports that nothing is there, or makes it
        except NotADirectoryError as error:
            raise StoreError(
                f"{named} is not a directory; name a JOBDIR, or the directory of a"
                " store"
            ) from error
        except OSError as error:
            raise SettingError(f"{named[:80]}: {error.strerror}") from error
        except ValueError as error:  # a zero byte, or half of a surrogate pair
            raise SettingError(f"{named[:80]!r} cannot be a path: {error}") from error
        return directory

    @property
    def jobdir(self) -> str:
        """The path as the user typed it."""
        return self._named

    def describe(self) -> Description:
        """Read the last checkpoint."""
        path = self.directory
        with BloomFilter.open(path, readonly=True) as seen:
            info, identity = seen.info(), seen.identity
        view = StoreReader(path).view()
        if view is None:
            return Description(info, identity, None)
        return Description(info, identity, view.job, view.rate, view.to_go)

    def requests(
        self, selection: Selection, watched: Watched
    ) -> Iterator[ListedRequest]:
        """Open the store, and yield its requests, slot by slot."""
        return _listed(self._opened(), selection, watched)

    def failed_requests(
        self, selection: Selection, reasons: tuple[str, ...]
    ) -> list[Failure]:
        """Return them, newest first, without the requests that were retried since."""
        with closing(self._opened()) as store, store.snapshot() as snapshot:
            found = FailureReader().read(snapshot)
        return FailedRequests(found).selected(selection, reasons)

    def changing(
        self,
        settings: Settings | None,
        watched: Watched,
        *,
        by_url: bool,
        adding: bool = False,
        spider: str | None = None,
    ) -> Changing:
        """Open the job; added requests may go to the process that has it open."""
        from bloomdupe.jobs.on_disk.changing import Changing

        path = self.new_directory if adding else self.directory
        return Changing(path, settings, watched, spider, by_url=by_url, adding=adding)

    def change_rules(self, change: Callable[[Rules], Rules]) -> Ruled:
        """Replace the file of rules, which a run reads at its checkpoints."""
        store = self.directory
        rules = RulesFile(store).change(change)
        owner = files.owner_of(store)
        if owner is None or owner.beat is None:
            return Ruled(rules, "The next run obeys.")
        if owner.silence is not None:
            silence = duration(owner.silence)
            return Ruled(
                rules,
                f"Process {owner.process}, which runs the crawl, has given no sign of"
                f" life for {silence}; it obeys at its next checkpoint.",
            )
        return Ruled(
            rules,
            f"The running crawl (process {owner.process}) obeys at its next checkpoint,"
            " BLOOMDUPE_CHECKPOINT_INTERVAL seconds from now at the latest.",
        )

    def stop(self, *, wait: bool) -> int:
        """Ask the run that has the job to stop, by a rule that the next run ignores.

        A run reads the rules before its first sign of life, and stops if a later stop
        is another one.
        """
        store = self.directory
        owner = now = files.owner_of(store)
        if owner is None or owner.beat is None:
            raise StoreMismatchError("no crawl runs, so there is nothing to stop")
        RulesFile(store).change(lambda rules: rules.stopping(time.time_ns()))
        while wait and now is not None and now.process == owner.process:
            time.sleep(PAUSE)
            now = files.owner_of(store)
        return 1

    def reader(self) -> AbstractContextManager[StoreReader]:
        """Return a reader of checkpoints."""
        return nullcontext(StoreReader(self.directory))

    def _opened(self) -> Store:
        return place_of(self.directory).open(readonly=True)

    @contextmanager
    def removal(self) -> Iterator[Removal]:
        """Lock the job and prepare to remove its store.

        If an earlier removal was interrupted when the store had lost its name already,
        prepare to remove the rest.
        """
        rest = files.aside(self.new_directory)
        if rest.is_dir() and not self.new_directory.exists():
            remove = partial(files.delete_unfinished, rest)
            yield Removal([str(rest)], "what an interrupted reset has left", remove, [])
            return
        store = self.directory
        if not place_of(store).exists():
            raise StoreError(f"{store}: there is no bloomdupe store")
        if store.is_symlink():
            raise StoreError(f"{store} is a link: name {store.resolve()}")
        # Before the lock: the data of a store that has an owner are not checked.
        contents, stays = _contents(store)
        lock = _lock(store)
        try:
            places = [store, store.with_name(store.name + ".feeds")]
            paths = [place for place in places if place.is_dir()]
            state = store.with_name(STATE)  # which Scrapy writes beside the store
            has_state = store.name == "bloomdupe" and state.is_file()
            states = [state] if has_state else []
            named = [str(path) for path in paths + states]
            yield Removal(named, contents, partial(_remove, states, places), stays)
        finally:
            lock.close()


def _listed(
    store: Store, selection: Selection, watched: Watched
) -> Iterator[ListedRequest]:
    with closing(store):
        total = count_pending(store, selection.slot)
        for one in watched(pending_requests(store, selection.slot), total, "requests"):
            slot = one.slot
            try:
                summary = summary_of(one.payload)
            except UnserializableError as error:
                if selection.pattern is None:
                    url = url_of(one.payload)
                    yield ListedRequest(slot, "?", url, 0, None, problem=str(error))
                continue
            if selection.has(slot, summary.url):
                yield ListedRequest(
                    slot,
                    summary.method,
                    summary.url,
                    summary.priority,
                    summary.callback,
                    one.not_before,
                    payload=summary.rest,
                )


# Removing


def _remove(states: list[Path], places: list[Path]) -> None:
    """Remove the state, and each directory: rename it in one step, and delete it.

    The store is in the first place, and removed last: as long as it is there, an
    interrupted removal is repeated.
    """
    for state in states:
        try:
            state.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot remove {state}: {error}") from error
    for path in reversed(places):
        aside = files.aside(path)
        files.delete_unfinished(aside)
        if not path.is_dir():
            continue
        try:
            path.rename(aside)
            files.sync_directory(path.parent)
            shutil.rmtree(aside)
        except OSError as error:
            raise StoreError(f"cannot remove {path}: {error}") from error


def _is_store(directory: Path) -> bool:
    """Whether a directory holds the files of a store itself."""
    return any((directory / name).exists() for name in (files.DATA, files.MARKER))


def _lock(store: Path) -> Descriptor:
    try:
        return files.lock_owner(store)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot remove {store}: {error}") from error


def _contents(store: Path) -> tuple[str, list[str]]:
    """Describe the contents of a store, even if it is damaged; and its output files."""
    try:
        with BloomFilter.open(store, readonly=True) as seen:
            urls = len(seen)
        view = StoreReader(store).view()
    except BloomDupeError as error:
        return f"it cannot be read ({error})", []
    if view is None or view.job.runs is None:
        return f"{plural(urls, 'URL')} seen", []
    job, runs = view.job, view.job.runs
    held = (
        f"{plural(urls, 'URL')} seen, {plural(job.pending, 'request')} pending,"
        f" {plural(job.pages, 'page')}"
    )
    return held, [output.uri for output in runs.outputs]


SCRAPYS = ("requests.queue", "requests.seen")
"""Names in a JOBDIR of Scrapy's own scheduler."""
MOST_NAMED = 3


def jobs_in(directory: Path) -> list[Path]:
    """Return the JOBDIRs in a directory, and in the directories in it, by name.

    Raises :class:`~bloomdupe.errors.StoreError` if it cannot be read.
    """
    try:
        return list(_jobs_in(directory, depth=2))
    except OSError as error:
        raise StoreError(f"{directory}: {error.strerror}") from error


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


def no_job(path: Path) -> StoreError:
    """Return the error for a path without a store, with the path that may be meant."""
    return StoreError(f"{path}: there is no bloomdupe store{_hint(path)}")


def _hint(path: Path) -> str:
    if not path.exists():
        if not path.parent.is_dir():
            return ""
        names = [one.name for one in path.parent.iterdir() if one.is_dir()]
        close = get_close_matches(path.name, names, 1)
        return _question([*_named(path), *(path.parent / one for one in close)])
    if any((path / name).exists() for name in SCRAPYS):
        return (
            f". It is a JOBDIR of Scrapy's own scheduler: `bloomdupe import {path}"
            " --spider NAME` imports it"
        )
    jobs = jobs_in(path)
    if not jobs:
        return _question(_named(path))
    some = ", ".join(map(str, jobs[:MOST_NAMED])) + ", ..." * (len(jobs) > MOST_NAMED)
    return (
        f", but {plural(len(jobs), 'job')} ({some}): name a job;"
        f" `bloomdupe info {path}` shows all"
    )


def _named(path: Path) -> list[Path]:
    """Return the jobs in directories here that have a name, such as a spider's."""
    here = Path()
    if path != here / path.name:
        return []
    with contextlib.suppress(OSError):  # what cannot be read gives no hints
        return [one for one in _jobs_in(here, depth=2) if one.name == path.name]
    return []


def _question(meant: list[Path]) -> str:
    return f"; did you mean {meant[0]}?" if meant else ""
