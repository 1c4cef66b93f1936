"""The stop points of a crawl: they surround changes of files and of its own state.

A project calls :func:`install` when its settings are read. Every point is passed twice,
*before* and *after*: right before the step of its name, and right after.
"""

from __future__ import annotations

import atexit
import functools
import os
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.store.lmdb.lmdb_store import LmdbStore
from support import stops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bloomdupe.store.participant import Part, Participant
    from bloomdupe.store.store import Commit
    from support.stops import Points

FRONTIER = "bloomdupe.frontier.frontier"
PREPARE = (
    ("bloomdupe.filter.bloom", "BloomFilter", "prepare"),
    (FRONTIER, "Frontier", "prepare"),
    ("bloomdupe.crawl.engines.checkpoint", "Checkpoint", "_prepare_totals"),
    ("bloomdupe.crawl.engines.checkpoint", "CrawlRecord", "combined"),
    ("bloomdupe.feeds.exporter", "FeedExporter", "prepare"),
)
"""Where a checkpoint prepares its part: module, class, method. The participants that
enter themselves in its list are found there."""

FILES = ("pwrite", "truncate", "ftruncate", "fsync", "fdatasync", "rename", "replace")
"""Functions of ``os`` that change files."""


def install() -> None:
    """Put the points in place, if the environment asks for them."""
    points = stops.use()
    _install_commit(points)
    _install_end(points)
    _install_changes(points)
    for name in FILES:
        _install_file(points, name)
    _install_participants(points)
    for module, owner, method in PREPARE:
        _install_method(points, module, owner, method)


class WatchedCommit:
    """A commit with points around it; it settles requests of the store ``settling``."""

    def __init__(self, points: Points, commit: Commit, settling: Path | None) -> None:
        self._points = points
        self._commit = commit
        self._settling = settling

    def send(self) -> None:
        self._commit.send()

    def add(self, part: Part) -> None:
        self._commit.add(part)

    def done(self) -> None:
        self._commit.done()
        if self._settling is not None:
            self._points.commits += 1
            self._points.tell("committed", self._settling)
        self._points.reach("after commit")


def _install_commit(points: Points) -> None:
    begin = LmdbStore.begin

    @functools.wraps(begin)
    def watched(self: LmdbStore, *parts: Part) -> WatchedCommit:
        return _begun(points, self.path, [parts], lambda some: begin(self, *some[0]))

    LmdbStore.begin = watched  # type: ignore[assignment,method-assign]
    if find_spec("redis") is None:
        return
    from bloomdupe.store.redis.owner import PartitionOwner

    begin_there = PartitionOwner.begin

    @functools.wraps(begin_there)
    def watched_there(self: Any, parts: Any, **options: Any) -> Any:
        stores = [store for store, some in parts.items() if some]
        if not stores:  # only a sign of life
            return begin_there(self, parts, **options)
        return _begun(
            points,
            stores[0].path,
            [parts[store] for store in stores],
            lambda some: begin_there(
                self, {**parts, **dict(zip(stores, some, strict=True))}, **options
            ),
        )

    PartitionOwner.begin = watched_there  # type: ignore[method-assign]


def _begun(
    points: Points,
    path: Path,
    parts: Sequence[Sequence[Part]],
    begin: Callable[[list[list[Any]]], Commit],
) -> WatchedCommit:
    """Begin a commit with parts for each of some stores."""
    # One that holds a part of the lines, and nothing else, settles no request.
    whole = any(_module_of(part) == FRONTIER for some in parts for part in some)
    points.reach("before commit")
    if whole:  # what happens from here on belongs to the next one
        points.tell("commit", path, time.monotonic())
    commit = begin([[WatchedPart(points, part) for part in some] for some in parts])
    return WatchedCommit(points, commit, path if whole else None)


def _module_of(part: Part) -> str:
    """Return the module that has prepared a part."""
    return part.done.__module__


class WatchedPart:
    """A part on its way into a transaction, with points around its writing."""

    def __init__(self, points: Points, part: Part) -> None:
        self._points = points
        self._part = part
        self._name = _module_of(part).rpartition(".")[2]

    def __getattr__(self, name: str) -> Any:
        if name == "cleared":  # it is written first
            self._points.reach(f"before write {self._name}")
        if name == "exact":  # nothing of LMDB comes after it
            self._points.reach(f"after write {self._name}")
        return getattr(self._part, name)


def _install_end(points: Points) -> None:
    """Have points where the last checkpoint is made, and where the process ends."""
    from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
    from bloomdupe.crawl.progress.rounds import Run
    from bloomdupe.crawl.scheduler import FrontierScheduler

    close = FrontierScheduler.close

    @functools.wraps(close)
    def watched(self: FrontierScheduler, reason: str) -> Any:
        session = self._session
        result = points.around("close", lambda: close(self, reason), raises=False)
        if session is not None and isinstance(session.engine, CrawlEngine):
            store = session.engine.frontier.store
            if store is not None:
                points.tell("closed", store.path)
        return result

    FrontierScheduler.close = watched  # type: ignore[method-assign]

    # All writes are durable by then, as the last commit shows.
    end = Run.end

    @functools.wraps(end)
    def noted(self: Run, reason: str) -> None:
        points.around("note the end", lambda: end(self, reason), raises=False)

    Run.end = noted  # type: ignore[method-assign]
    atexit.register(points.reach, "before exit", raises=False)


def _install_changes(points: Points) -> None:
    """Have points where the inbox is read, and where it is emptied."""
    from bloomdupe.crawl.added_requests import AddedRequests
    from bloomdupe.store.inbox import Inbox

    step, remove = AddedRequests.step, Inbox.remove

    @functools.wraps(step)
    def stepping(self: AddedRequests) -> None:
        points.around("take up", lambda: step(self), raises=False)

    @functools.wraps(remove)
    def removing(self: Inbox, names: Iterable[str]) -> None:
        points.around("empty the inbox", lambda: remove(self, names), raises=False)

    AddedRequests.step = stepping  # type: ignore[method-assign]
    Inbox.remove = removing  # type: ignore[method-assign]


def _install_file(points: Points, name: str) -> None:
    function = getattr(os, name)

    @functools.wraps(function)
    def watched(*args: Any, **options: Any) -> Any:
        label = f"{name} {_name_of(args[0])}"
        return points.around(label, lambda: function(*args, **options), system=True)

    setattr(os, name, watched)


def _name_of(file: Any) -> str:
    """Name a file by its descriptor or path, without its folder."""
    path = Path("/proc/self/fd", str(file)) if isinstance(file, int) else Path(file)
    return path.readlink().name if isinstance(file, int) else path.name


def _install_method(points: Points, module: str, owner: str, method: str) -> None:
    class_ = getattr(import_module(module), owner)
    function = getattr(class_, method)

    @functools.wraps(function)
    def watched(self: Any, *args: Any, **options: Any) -> Part:
        return _prepared(points, owner, lambda: function(self, *args, **options))

    setattr(class_, method, watched)


def _prepared(points: Points, name: str, prepare: Callable[[], Part]) -> Part:
    """Prepare a part between two points; it is done between two other points."""
    part: Part = points.around(f"prepare {name}", prepare)
    done = part.done

    @functools.wraps(done)  # its module tells who has prepared the part
    def watched() -> None:
        points.around(f"done {name}", done)

    part.done = watched
    return part


class Preparing:
    """A participant of the checkpoint, with points around ``prepare()``."""

    changed = False

    def __init__(self, points: Points, participant: Participant) -> None:
        self._points = points
        self._participant = participant
        self._name = type(participant).__name__

    def prepare(self) -> Part:
        return _prepared(self._points, self._name, self._participant.prepare)


def _install_participants(points: Points) -> None:
    from bloomdupe.crawl.engines.checkpoint import Checkpoint

    prepare = Checkpoint._parts_with

    @functools.wraps(prepare)
    def watched(self: Checkpoint, feeds: Part) -> list[Part]:
        given = self.participants
        self.participants = [Preparing(points, one) for one in given]
        try:
            return prepare(self, feeds)
        finally:
            self.participants = given

    Checkpoint._parts_with = watched  # type: ignore[method-assign]
