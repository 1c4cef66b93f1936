"""The stop points of a crawl: they surround changes of files and of its own state.

A forked process with ``STOP`` in its environment calls :func:`install` first. Every
point is passed twice: right before the step of its name, and right after.
"""

from __future__ import annotations

import atexit
import os
import time
from functools import partial, wraps
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.checkpoint import Checkpoint
from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
from bloomdupe.crawl.scheduler import FrontierScheduler
from bloomdupe.store.lmdb import lmdb_store
from bloomdupe.store.lmdb.lmdb_store import LmdbStore
from support.stops import POINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from bloomdupe.store.store import Commit, Part

    Call: TypeAlias = Callable[[], Any]

PARTITION = "bloomdupe.frontier.partition"
PREPARE = (
    ("bloomdupe.filter.bloom:BloomFilter", "prepare"),
    (f"{PARTITION}:Partition", "prepare"),
    ("bloomdupe.crawl.engines.checkpoint:Checkpoint", "_prepare_totals"),
    ("bloomdupe.feeds.exporter:FeedExporter", "prepare"),
)
"""Where a checkpoint prepares its part. The participants that enter themselves in its
list are found there."""

DELIVERY = (
    ("scrapy.extensions.feedexport:FeedSlot", "start_exporting", "open a feed"),
    ("scrapy.extensions.feedexport:FeedSlot", "finish_exporting", "export a feed"),
    ("bloomdupe.feeds.delivery:Target", "prepare", "sync a feed"),
    ("bloomdupe.feeds.stored_feeds:Delivered", "put", "record a feed"),
    ("bloomdupe.feeds.delivery:Target", "store", "store a feed"),
)
"""The steps of the delivery of a feed that is written when the crawl has finished."""

FILES = ("pwrite", "truncate", "ftruncate", "fsync", "fdatasync", "rename", "replace")
"""Functions of ``os`` that change files. A Mac has no ``fdatasync``."""


def install() -> None:
    """Put the points in place that the environment asks for."""
    POINTS.use()
    _install_commits()
    install_files()
    _wrap(FrontierScheduler, "close", _close)
    atexit.register(POINTS.reach, "before exit", raises=False)
    for owner, method, label in (
        ("bloomdupe.crawl.added_requests:AddedRequests", "step", "take up"),
        ("bloomdupe.store.inbox:Inbox", "remove", "empty the inbox"),
        # All writes are durable by then, as the last commit shows.
        ("bloomdupe.crawl.progress.rounds:Run", "end", "note the end"),
        *DELIVERY,
    ):
        _wrap(resolve_name(owner), method, _around(label, raises=False))
    for owner, method in PREPARE:
        name = owner.partition(":")[2]
        _wrap(resolve_name(owner), method, partial(_prepare, name))
    _wrap(Checkpoint, "_parts", _enter_participants)


def install_files() -> None:
    """Put points around all changes of files."""
    for name in filter(partial(hasattr, os), FILES):
        _wrap(os, name, partial(_change, name))


def _install_commits() -> None:
    def begin(call: Call, store: LmdbStore, *parts: Part) -> Commit:
        return _begin(call, store.path, parts)

    _wrap(LmdbStore, "begin", begin)
    _wrap(lmdb_store, "write_parts", _around("write"))
    _wrap(LmdbStore, "_send", _around("send", raises=False))
    if find_spec("redis") is None:
        return
    from bloomdupe.store.redis.owner import PartitionOwner

    def begin_there(call: Call, _: Any, parts: Any, **__: Any) -> Commit:
        stores = [store for store, some in parts.items() if some]
        if not stores:  # only a heartbeat
            return call()  # type: ignore[no-any-return]
        return _begin(call, stores[0].path, chain(*parts.values()))

    _wrap(PartitionOwner, "begin", begin_there)
    _wrap(PartitionOwner, "_send", _around("send", raises=False))


def _around(name: str, **how: bool) -> Callable[..., Any]:
    return lambda call, *_, **__: POINTS.around(name, call, **how)


def _begin(call: Call, path: Path, parts: Iterable[Part]) -> Commit:
    """Begin a commit between two points."""
    # One that holds a part of the lines, and nothing else, acknowledges no request.
    complete = any(part.done.__module__ == PARTITION for part in parts)
    POINTS.reach("before commit")
    if complete:  # what happens from here on belongs to the next one
        POINTS.tell("commit", path, time.monotonic())
    commit: Commit = call()
    done = commit.done

    def watched() -> None:
        done()
        if complete:
            POINTS.tell("committed", path)
        POINTS.reach("after commit")

    commit.done = watched  # type: ignore[method-assign]
    return commit


def _close(call: Call, scheduler: FrontierScheduler, *_: Any) -> Any:
    """Have points where the last checkpoint is made."""
    session = scheduler._session
    result = POINTS.around("close", call, raises=False)
    if session is not None and isinstance(session.engine, CrawlEngine):
        store = session.engine.frontier.store
        if store is not None:
            POINTS.tell("closed", store.path)
    return result


def _change(name: str, call: Call, file: Any, *_: Any) -> Any:
    """Change a file between two points, which name it without its folder."""
    path = Path("/proc/self/fd", str(file)) if isinstance(file, int) else Path(file)
    place = path.readlink() if isinstance(file, int) else path
    return POINTS.around(f"{name} {place.name}", call, system=True)


def _prepare(name: str, prepare: Callable[[], Part], *_: object) -> Part:
    """Prepare a part between two points; it is done between two other points."""
    part: Part = POINTS.around(f"prepare {name}", prepare)
    done = part.done

    @wraps(done)  # its module tells who has prepared the part
    def watched() -> None:
        POINTS.around(f"done {name}", done)

    part.done = watched
    return part


def _enter_participants(call: Call, checkpoint: Checkpoint, *_: object) -> Any:
    """Have points around the participants that have entered themselves."""
    for one in checkpoint.participants:
        if "prepare" not in vars(one):
            _wrap(one, "prepare", partial(_prepare, type(one).__name__))
    return call()


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Have a function called by ``around``, which is given the call and its arguments.

    ``owner`` is a class, a module or an object.
    """
    function = getattr(owner, name)

    @wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        return around(lambda: function(*arguments, **options), *arguments, **options)

    setattr(owner, name, wrapped)
