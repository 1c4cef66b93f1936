"""Redis names: the keys and the formats of scrapy-redis, as its settings define them.

Valid for scrapy-redis 0.6 to 0.9 and scrapy-redis-bloomfilter 0.8. ``NAME`` is the name
of the spider; settings of the project, the spider and the command line count:

=============================== ============================ =======================
setting                         default                      contents of the key
=============================== ============================ =======================
``SCHEDULER_QUEUE_KEY``         ``NAME:requests``            pending requests
``SCHEDULER_DUPEFILTER_KEY``    ``NAME:dupefilter``          a set of fingerprints
the same                        ``NAME:bloomfilter``         a bitmap, with
                                                             scrapy-redis-bloomfilter
``REDIS_START_URLS_KEY``, or    ``NAME:start_urls``          start URLs that no
the spider's ``redis_key``                                   worker has taken yet
=============================== ============================ =======================

``SCHEDULER_QUEUE_CLASS`` defines the order of the requests, and
``SCHEDULER_SERIALIZER`` their format.
"""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from bloomdupe.crawl.requests.pickles import unpickle
from bloomdupe.errors import SettingError
from bloomdupe.foreign import check_packed, json_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.jobs.project import Project

__all__ = ["QueueKind", "RedisNames", "loader_of"]


class QueueKind(NamedTuple):
    """How scrapy-redis keeps a queue in Redis."""

    type: str
    """Redis' type of the key."""
    from_end: bool
    """Whether the next request is at the end."""


_QUEUES = {
    "PriorityQueue": QueueKind("zset", from_end=False),
    "SpiderPriorityQueue": QueueKind("zset", from_end=False),
    "FifoQueue": QueueKind("list", from_end=True),
    "SpiderQueue": QueueKind("list", from_end=True),
    "LifoQueue": QueueKind("list", from_end=False),
    "SpiderStack": QueueKind("list", from_end=False),
}
"""Queues by class name; the second name of each pair is the older."""


def _of_msgpack(data: bytes) -> Any:  # noqa: ANN401 - any packed value
    check_packed(data)
    return msgpack.unpackb(data)


_PICKLES = {"scrapy_redis.picklecompat", "pickle", "cPickle"}
_PLAIN: dict[str, Callable[[bytes], Any]] = {
    "json": json_of,
    "msgpack": _of_msgpack,
}
"""Serializers that run no code when they read."""


class RedisNames(NamedTuple):
    """Names of keys."""

    queue: str
    seen: tuple[str, ...]
    """Candidates; the first that exists counts."""
    start: str
    kind: QueueKind

    @classmethod
    def of(cls, project: Project) -> RedisNames:
        """Read them from the settings; raises :class:`SettingError`."""
        settings = project.settings
        seen = [settings.get("SCHEDULER_DUPEFILTER_KEY")]
        if not seen[0]:
            seen = ["%(spider)s:dupefilter", "%(spider)s:bloomfilter"]
        start = project.spiders_own("redis_key")
        if not isinstance(start, str):
            start = settings.get("REDIS_START_URLS_KEY") or "%(name)s:start_urls"
        return cls(
            _filled(
                settings.get("SCHEDULER_QUEUE_KEY") or "%(spider)s:requests", project
            ),
            tuple(_filled(name, project) for name in seen),
            _filled(start, project),
            _kind_of(settings.get("SCHEDULER_QUEUE_CLASS")),
        )


def _filled(name: str, project: Project) -> str:
    try:
        return str(name % {"spider": project.spider, "name": project.spider})
    except (TypeError, ValueError, KeyError) as error:
        raise SettingError(f"{name!r} is no name of a key: {error!r}") from error


def _kind_of(given: object) -> QueueKind:
    name = _name_of(given or "PriorityQueue").rpartition(".")[2]
    if name not in _QUEUES:
        raise SettingError(
            f"SCHEDULER_QUEUE_CLASS = {_name_of(given)!r}: its order is not known here."
            " If it is derived from one of scrapy-redis, give that for this import:"
            " scrapy bloomdupe -s"
            " SCHEDULER_QUEUE_CLASS=scrapy_redis.queue.PriorityQueue import ..."
            " (or FifoQueue, LifoQueue)"
        )
    return _QUEUES[name]


def _name_of(given: object) -> str:
    return given if isinstance(given, str) else getattr(given, "__name__", repr(given))


def loader_of(project: Project, *, trust_pickles: bool) -> Callable[[bytes], Any]:
    """Return a function that reads a request as stored in Redis.

    Without ``trust_pickles`` it runs no code: it raises an exception for a pickle with
    other than plain types, and :class:`SettingError` refuses an unknown serializer.
    """
    name = _name_of(project.settings.get("SCHEDULER_SERIALIZER") or "pickle")
    if name in _PICKLES:
        return pickle.loads if trust_pickles else unpickle
    if name in _PLAIN:
        return _PLAIN[name]
    if not trust_pickles:
        raise SettingError(
            f"SCHEDULER_SERIALIZER = {name!r}: it is not known whether reading its data"
            " can run code, and every user of that Redis can write any data. If only"
            " you can write to it, --trust-pickles reads the data"
        )
    try:
        loads: Callable[[bytes], Any] = import_module(name).loads
    except (ImportError, AttributeError) as error:
        raise SettingError(f"SCHEDULER_SERIALIZER = {name!r}: {error}") from error
    return loads
