"""The stop points of a crawl: they surround changes of files and of its own state.

A forked process with ``STOP`` in its environment calls :func:`install` first. Every
point is passed twice: right before the step of its name, and right after.
"""

from __future__ import annotations

import atexit
import functools
import os
import time
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.checkpoint import Checkpoint
from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
from bloomdupe.crawl.scheduler import FrontierScheduler
from bloomdupe.store.lmdb.lmdb_store import LmdbStore
from support import stops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bloomdupe.store.store import Commit, Part
    from support.stops import Points

PARTITION = "bloomdupe.frontier.partition"
PREPARE = (
    ("bloomdupe.filter.bloom:BloomFilter", "prepare"),
    (f"{PARTITION}:Partition", "prepare"),
    ("bloomdupe.crawl.engines.checkpoint:Checkpoint", "_prepare_totals"),
    ("bloomdupe.crawl.engines.checkpoint:Checkpoint", "_combined"),
    ("bloomdupe.feeds.exporter:FeedExporter", "prepare"),
)
"""Where a checkpoint prepares its part. The participants that enter themselves in its
list are found there."""

FILES = ("pwrite", "truncate", "ftruncate", "fsync", "fdatasync", "rename", "replace")
"""Functions of ``os`` that change files. A Mac has no ``fdatasync``."""


def install() -> None:
    """Put the points in place, if the environment asks for them."""
    points = stops.use()
    _install_commit(points)
    _install_end(points)
    for owner, method, label in (
        ("bloomdupe.crawl.added_requests:AddedRequests", "step", "take up"),
        ("bloomdupe.store.inbox:Inbox", "remove", "empty the inbox"),
        # All writes are durable by then, as the last commit shows.
        ("bloomdupe.crawl.progress.rounds:Run", "end", "note the end"),
    ):
        around = functools.partial(points.around, label, raises=False)
        _wrap(resolve_name(owner), method, lambda call, *_, do=around: do(call))
    for name in filter(functools.partial(hasattr, os), FILES):
        _wrap(os, name, functools.partial(_changed, points, name))
    for owner, method in PREPARE:
        name = owner.partition(":")[2]
        _wrap(resolve_name(owner), method, functools.partial(_prepared, points, name))
    _wrap(Checkpoint, "_parts_with", functools.partial(_with_participants, points))


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Have a function called by ``around``, which is given the call and its arguments.

    ``owner`` is a class, a module or an object.
    """
    function = getattr(owner, name)

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        return around(lambda: function(*arguments, **options), *arguments)

    setattr(owner, name, wrapped)


class WatchedCommit:
    """A commit with points around it; it acks requests of the store ``acking``."""

    def __init__(self, points: Points, commit: Commit, acking: Path | None) -> None:
        self._points = points
        self._commit = commit
        self._acking = acking

    def send(self) -> None:
        self._commit.send()

    def add(self, part: Part) -> None:
        self._commit.add(part)

    def done(self) -> None:
        self._commit.done()
        if self._acking is not None:
            self._points.commits += 1
            self._points.tell("committed", self._acking)
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
        if not stores:  # only a heartbeat
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
    # One that holds a part of the lines, and nothing else, acknowledges no request.
    complete = any(_module_of(part) == PARTITION for some in parts for part in some)
    points.reach("before commit")
    if complete:  # what happens from here on belongs to the next one
        points.tell("commit", path, time.monotonic())
    commit = begin([[WatchedPart(points, part) for part in some] for some in parts])
    return WatchedCommit(points, commit, path if complete else None)


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

    def close(call: Callable[[], Any], scheduler: FrontierScheduler, *_: Any) -> Any:
        session = scheduler._session
        result = points.around("close", call, raises=False)
        if session is not None and isinstance(session.engine, CrawlEngine):
            store = session.engine.frontier.store
            if store is not None:
                points.tell("closed", store.path)
        return result

    _wrap(FrontierScheduler, "close", close)
    atexit.register(points.reach, "before exit", raises=False)


def _changed(
    points: Points, name: str, call: Callable[[], Any], file: Any, *_: Any
) -> Any:
    """Change a file between two points, which name it without its folder."""
    path = Path("/proc/self/fd", str(file)) if isinstance(file, int) else Path(file)
    place = path.readlink() if isinstance(file, int) else path
    return points.around(f"{name} {place.name}", call, system=True)


def _prepared(
    points: Points, name: str, prepare: Callable[[], Part], *_: object
) -> Part:
    """Prepare a part between two points; it is done between two other points."""
    part: Part = points.around(f"prepare {name}", prepare)
    done = part.done

    @functools.wraps(done)  # its module tells who has prepared the part
    def watched() -> None:
        points.around(f"done {name}", done)

    part.done = watched
    return part


def _with_participants(
    points: Points, call: Callable[[], Any], checkpoint: Checkpoint, *_: object
) -> Any:
    """Have points around the participants that have entered themselves."""
    for one in checkpoint.participants:
        if "prepare" not in vars(one):
            watched = functools.partial(_prepared, points, type(one).__name__)
            _wrap(one, "prepare", watched)
    return call()
