"""JobOnDisk: a job in a JOBDIR."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from bloomdupe.crawl.progress.pace import duration, plural
from bloomdupe.crawl.state.rules_file import RulesFile
from bloomdupe.errors import BloomDupeError, StoreError, StoreMismatchError
from bloomdupe.jobs.job_contract import Job, Removal, Ruled
from bloomdupe.jobs.on_disk.places import jobs_at, store_at
from bloomdupe.jobs.on_disk.reader import JobReader
from bloomdupe.store import files
from bloomdupe.store.place import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from scrapy.settings import Settings

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.changes import AddingJob, ChangingJob
    from bloomdupe.store.descriptor import Descriptor

PAUSE = 0.05
"""Seconds between two looks for a process that ends."""
STATE = "spider.state"
"""File in a JOBDIR, of Scrapy's extension."""


class JobOnDisk(Job):
    """A job in a JOBDIR, named by the JOBDIR or by the directory of its store."""

    engine: ClassVar[str] = "disk"
    kind: ClassVar[str] = "a job in a directory"

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

    def reader(self) -> AbstractContextManager[JobReader]:
        """Return a reader of checkpoints."""
        return nullcontext(JobReader(self.directory))

    def adding(self, settings: Settings | None, spider: str | None) -> AddingJob:
        """Open the job; if a process has it, requests go into its inbox."""
        from bloomdupe.jobs.on_disk.changing import opened_to_add

        return opened_to_add(self.new_directory, settings, spider)

    def changing(self, settings: Settings | None, *, by_url: bool) -> ChangingJob:
        """Open the job, which no process may have."""
        from bloomdupe.jobs.on_disk.changing import opened_to_change

        return opened_to_change(self.directory, settings, by_url=by_url)

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


def _contents(store: Path) -> tuple[str, list[str]]:
    """Describe the contents of a store, even if it is damaged; and its output files."""
    try:
        found = JobReader(store).describe()
    except BloomDupeError as error:
        return f"it cannot be read ({error})", []
    seen = f"{plural(found.filter.keys, 'URL')} seen"
    job = found.job
    if job is None or job.runs is None:
        return seen, []
    held = f"{seen}, {plural(job.pending, 'request')} pending"
    stays = [output.uri for output in job.runs.outputs]
    return f"{held}, {plural(job.pages, 'page')}", stays


def _lock(store: Path) -> Descriptor:
    try:
        return files.lock_owner(store)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot remove {store}: {error}") from error


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
