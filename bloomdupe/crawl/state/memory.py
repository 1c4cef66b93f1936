"""SpiderMemory: state and attributes of the spider, as of the last checkpoint."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.extensions.spiderstate import SpiderState as ScrapysSpiderState
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError
from bloomdupe.printable import logger_of
from bloomdupe.requests.callbacks import is_constant
from bloomdupe.requests.values import TooLargeError, pack, pack_for_request, unpack
from bloomdupe.store.format import BLOBS
from bloomdupe.store.store import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from bloomdupe.crawl.ending import Stopping
    from bloomdupe.crawl.engines.crawl_engine import CrawlEngine

logger = logger_of(__name__)

STATE, ATTRIBUTES = "state", "attributes"
"""Names in the table ``blobs``."""
MOST_BYTES = 1_000_000
"""The attributes of a spider that are stored, together."""
PATIENCE = 60.0
"""Seconds for which nothing is handed out, as ``start()`` has no output yet."""
MOST_PARTS = 100_000
"""A container with more elements counts as too large, and is not packed."""

_NOT_OURS = frozenset({"name", "crawler", "settings", "custom_settings", STATE})
_SIZED = frozenset(
    {list, tuple, dict, set, frozenset, Counter, OrderedDict, defaultdict, deque}
)
_NOT_STORED, _TOO_LARGE = b"\xc1", b"\xc1 large"
"""How what stands for a value that cannot be stored begins: msgpack has no such
byte."""


class SpiderMemory(Participant):
    """Keeps ``spider.state``, and plain attributes of the spider.

    **The state** is kept whole. Scrapy's extension still writes ``JOBDIR/spider.state``
    when the crawl stops. What is stored here is at least as new, and the next run uses
    it. A state that cannot be stored is left to Scrapy, and a warning says so.

    **Attributes** are kept, unless the user says no, as far as they differ from
    their values at the opening, when the signal ``spider_opened`` is handled:
    components of Scrapy have set theirs by then, and ``start()`` has not begun. An
    attribute of the class belongs to the spider, too. A run that has not resumed
    begins without them. Those in ``places`` name files, so no store decides on them,
    nor on anything for which the class has a method or a property. The record maps each
    name to

    1. a digest of its value at the opening;
    2. its value now, packed (nil: it cannot be stored);
    3. the name of the class that has it, if it is not the spider's own;
    4. if ``start()`` sets it before its first output, a digest of its value then.

    ``start()`` runs in each run, and may set an attribute to where it began, such as
    the number of a page. If it has ended in an earlier run, and sets the same value as
    in that, callbacks have changed it since, and it gets its stored value after all.
    Nothing is handed out before, for ``PATIENCE`` seconds at most. A ``start()`` that
    has not ended keeps the value that it sets.

    Nothing is pickled. All is packed for each checkpoint, to see whether it has
    changed: that takes 2 us for a number or a short text, and 2 ms for 20,000 URLs.

    Of several workers, only the memory of the spider that leads is stored. Another
    worker keeps its own here, and goes back to it after a refused commit.
    """

    def __init__(self, engine: CrawlEngine, places: Collection[str]) -> None:
        session, crawler = engine.session, engine.session.crawler
        self._spider: Any = session.spider
        self._stats = session.stats
        self._frontier, self._run = engine.frontier, engine.run
        self._always = engine.settings.start_requests == "always"
        self._stored = self._read()
        """Values by name, as of the last checkpoint."""
        if not engine.run.resumed:
            self._stored.pop(ATTRIBUTES, None)
        self._is_written = False
        """Whether the store has them, as far as this worker knows."""
        of_class: dict[str, Any] = {}
        for kind in reversed(type(self._spider).__mro__):
            of_class |= vars(kind)
        code = {name for name, value in of_class.items() if _is_code(name, value)}
        self._of_class = of_class.keys() - code
        self._left_out = {*_NOT_OURS, *code, *places}
        self._opened: dict[str, bytes] | None = None
        """The attributes at the opening of the spider; None before that."""
        self._before: dict[str, bytes] | None = None
        """The attributes before ``start()``, until its first output."""
        self._begun: dict[str, bytes] = {}
        """Digests of those that ``start()`` sets before its first output, then."""
        self._patience = 0.0
        """Until when the first output of ``start()`` is waited for."""
        self._lost: set[str] = set()
        """Names of attributes that were set, and could not be stored."""
        self._warned: set[str] = set()
        if STATE in self._stored:
            self._restore_state()
            # A run that has died while it wrote Scrapy's file has left half of it.
            scrapys = crawler.get_extension(ScrapysSpiderState)
            if type(scrapys) is ScrapysSpiderState:
                opened = scrapys.spider_opened
                crawler.signals.disconnect(opened, signals.spider_opened)
            else:  # it was connected first, so ours runs last
                crawler.signals.connect(self._restore_state, signals.spider_opened)
        if engine.settings.spider_attributes:
            crawler.signals.connect(self.spider_opened, signals.spider_opened)

    def spider_opened(self) -> None:
        """Note the values of the attributes, and restore those of the last run."""
        self._opened = {name: _packed(one) for name, one in self._values().items()}
        large = [name for name, packed in self._opened.items() if packed == _TOO_LARGE]
        self._left_out.update(large)
        self._restore_attributes()

    def read_again(self) -> None:
        """Let the spider remember the state of the last commit, and nothing else.

        The leader's memory is what is stored by now.
        """
        if self._frontier.leads:
            self._stored = self._read()
        self._is_written = False
        self._restore_state()
        if self._opened is None:
            return
        own = vars(self._spider)
        for name, value in self._values().items():
            opened = self._opened.get(name)
            if opened is None:
                own.pop(name, None)
            elif opened[:1] != _NOT_STORED and _packed(value) != opened:
                self._set(name, unpack(opened), self._owner(name))
        self._restore_attributes()

    def take_over(self) -> None:
        """Let the spider remember what that of the last leader did.

        What has changed here since the opening stays.
        """
        self._stored, self._is_written = self._read(), True
        if not getattr(self._spider, "state", None):
            self._restore_state()
        if self._opened is not None:
            self._restore_attributes()

    def _read(self) -> dict[str, bytes]:
        """Return the values that are stored now, by name."""
        store = self._frontier.store
        assert store is not None  # noqa: S101 - or there is no memory to keep
        return {name.decode(): bytes(one) for name, one in store.now.records(BLOBS)}

    def _restore_state(self) -> None:
        packed = self._stored.get(STATE)
        try:
            state = {} if packed is None else unpack(packed)
        except Exception as error:
            raise UnserializableError(
                f"the stored spider.state cannot be read: {error}. Run the code that"
                " has stored it; or, if the job is damaged, put it back from a backup"
            ) from error
        self._spider.state = state

    def _restore_attributes(self) -> None:
        """Give the spider its stored values, unless it was opened with other values.

        A value that has changed since then stays.
        """
        assert self._opened is not None  # noqa: S101 - it was asked before
        values = self._values()
        self._begun = {}
        for name, (digest, packed, owner, begun) in self._record.items():
            if name in self._left_out or _digest(self._opened.get(name)) != digest:
                continue
            if begun:
                self._begun[name] = begun
            if name in values and _packed(values[name]) != self._opened.get(name):
                continue
            self._restore(name, packed, owner)
        self._before = {name: _packed(one) for name, one in self._values().items()}
        waits = self._start_is_over and bool(self._record)
        self._patience = monotonic() + PATIENCE if waits else 0.0

    @property
    def _record(self) -> dict[str, tuple[bytes, bytes | None, str | None, bytes]]:
        """The stored record of attributes."""
        stored = self._stored.get(ATTRIBUTES)
        return unpack(stored) if stored else {}

    def _restore(self, name: str, packed: bytes | None, owner: str | None) -> None:
        if packed is None:
            self._lost.add(name)
            return
        try:
            self._set(name, unpack(packed), owner)
        except Exception as error:  # noqa: BLE001 - of the objects in it
            self._lost.add(name)
            what = "spider.%(name)s cannot be restored: %(error)s"
            self._warn(name, what, name=name, error=error)

    @property
    def _start_is_over(self) -> bool:
        """Whether ``start()`` has ended in an earlier run, and does nothing new."""
        return self._run.started and not self._always

    @property
    def awaits_start(self) -> bool:
        """Whether ``start()`` may still set attributes to where it began."""
        if self._patience and monotonic() > self._patience:
            self._patience = 0.0
            logger.warning(
                "start() has yielded nothing for %(seconds)d seconds: pages are fetched"
                " from now on, and may find attributes as start() has set them",
                {"seconds": PATIENCE},
            )
        return bool(self._patience)

    def start_began(self) -> bool:
        """Restore the attributes that ``start()`` has set as in the last run.

        Called at its outputs and at its end; returns whether it was the first time.
        """
        before, self._before, self._patience = self._before, None, 0.0
        if before is None or self._opened is None:
            return False
        record = self._record if self._start_is_over else {}
        for name, value in self._values().items():
            packed, opened = _packed(value), _digest(self._opened.get(name))
            begun = _digest(packed)
            is_new = not (self._start_is_over or name in self._begun or begun == opened)
            if packed == before.get(name) and not is_new:
                continue
            known, stored, owner, _ = record.get(name, (None, None, None, b""))
            if known == opened and self._begun.get(name, opened) == begun:
                self._restore(name, stored, owner)
            self._begun[name] = begun
        return True

    def _owner(self, name: str) -> str | None:
        """Return the name of the class that has an attribute; None: the spider has."""
        if name in vars(self._spider):
            return None
        kinds = type(self._spider).__mro__
        return next((global_object_name(k) for k in kinds if name in vars(k)), None)

    def _set(self, name: str, value: Any, owner: str | None) -> None:
        """Set an attribute, of a class if callbacks set it there.

        Other crawls in this process share the class. So the spider gets a container of
        its own, as its pages reach it by ``self``.
        """
        own = vars(self._spider)
        for kind in type(self._spider).__mro__ if is_constant(value) else ():
            if global_object_name(kind) == owner and name not in own:
                setattr(kind, name, value)
                return
        own[name] = value

    # Checkpoints

    @property
    def changed(self) -> bool:
        """Whether ``spider.state`` has changed; attributes wait for their turn."""
        return self._state() != self._stored.get(STATE)

    @property
    def is_empty(self) -> bool:
        """Whether the spider remembers nothing, and has not remembered anything."""
        if getattr(self._spider, "state", None):
            return False
        return self._opened is None or not (
            ATTRIBUTES in self._stored or self._attributes()
        )

    def prepare(self) -> Part:
        """Return the changes for the next checkpoint.

        That is all of it, if this worker may have become the leader just now.
        """
        found = {STATE: self._state(), ATTRIBUTES: self._attributes()}
        leads = self._frontier.leads
        stored = self._stored if self._is_written else None
        changes = {
            name.encode(): value
            for name, value in found.items()
            if leads and (stored is None or stored.get(name) != value)
        }

        def done() -> None:
            self._stored = {n: one for n, one in found.items() if one is not None}
            self._is_written = leads

        return Part(changes={BLOBS: changes}, done=done)

    def _state(self) -> bytes | None:
        """Return the state as bytes; None if it is missing or cannot be stored."""
        state = getattr(self._spider, "state", None)
        try:
            return None if state is None else pack(state)
        except UnserializableError as error:
            self._warn(
                STATE,
                "spider.state cannot be stored with the checkpoints, so after a"
                " crash it is as it was when the crawl last stopped in good order:"
                " %(reason)s",
                reason=error,
            )
            return None

    def _attributes(self) -> bytes | None:
        """Return the record of attributes; None if none has changed."""
        if self._opened is None or self.awaits_start:
            return self._stored.get(ATTRIBUTES)
        changed: dict[str, bytes | None] = {}
        for name, value in self._values().items():
            packed = _packed(value)
            if packed != self._opened.get(name) or name in self._begun:
                changed[name] = None if packed[:1] == _NOT_STORED else packed
                if packed == _TOO_LARGE:
                    self._leave_out(name)
        while sum(len(packed or b"") for packed in changed.values()) > MOST_BYTES:
            largest = max(changed, key=lambda name: len(changed[name] or b""))
            changed[largest] = None
            self._leave_out(largest)
        missing = self._lost - changed.keys()
        if missing and self._stats.get_value("bloomdupe/start_requests_skipped"):
            self._warn(
                ATTRIBUTES,
                "start requests of an earlier run are done, so this run skips them; but"
                " it lacks what their callbacks had put into %(names)s, because that"
                " cannot be stored. Set it in start(), or keep the plain values from"
                " which it is made: a token, cookies",
                names=", ".join(f"self.{name}" for name in sorted(missing)),
            )
        changed |= dict.fromkeys(missing)
        if not changed:
            return None
        opened, begun, owner = self._opened, self._begun, self._owner
        return pack(
            {
                n: (_digest(opened.get(n)), changed[n], owner(n), begun.get(n, b""))
                for n in sorted(changed)
            }
        )

    def _values(self) -> dict[str, Any]:
        spider, own, left_out = self._spider, vars(self._spider), self._left_out
        inherited = self._of_class - own.keys() - left_out
        found = {name: getattr(type(spider), name, None) for name in inherited}
        return found | {name: own[name] for name in own if name not in left_out}

    def _leave_out(self, name: str) -> None:
        self._left_out.add(name)
        self._lost.add(name)
        self._warn(
            name,
            "the attribute %(name)s of the spider is too large to be stored: a run that"
            " resumes begins without it. Put large data into a file or a database, or"
            " set BLOOMDUPE_SPIDER_ATTRIBUTES = False if no run needs it",
            name=name,
        )

    def _warn(self, about: str, message: str, **values: object) -> None:
        """Log a warning, the first that is about something."""
        if about not in self._warned:
            self._warned.add(about)
            logger.warning(message, values)


def _digest(packed: bytes | None) -> bytes:
    """Return the digest of a value, the same in each process; b"" without a value."""
    return b"" if packed is None else hashlib.blake2b(packed, digest_size=16).digest()


def _packed(value: Any) -> bytes:
    """Return a value as bytes; if it cannot be stored, a mark in their place."""
    kind = type(value)
    size = len(value) if kind in _SIZED else 0
    if size > MOST_PARTS:
        return _TOO_LARGE
    try:
        packed = pack_for_request(value)
    except TooLargeError:
        return _TOO_LARGE
    except Exception:  # noqa: BLE001 - whatever the value's own code raises
        return b"%b %b %d" % (_NOT_STORED, global_object_name(kind).encode(), size)
    return _TOO_LARGE if len(packed) > MOST_BYTES else packed


def _is_code(name: str, value: object) -> bool:
    """Whether an attribute of a class is a method, a property or the like."""
    special = name.startswith("__") or callable(value)
    return special or hasattr(type(value), "__get__")


def leave_scrapys_file(crawler: Crawler, stopping: Stopping) -> None:
    """Keep Scrapy from writing ``JOBDIR/spider.state`` until the spider is open.

    When a crawl fails to open, Scrapy would empty the file first, and only then find
    that the spider has no state yet: the next run would have no state, either. When the
    last checkpoint stays valid, later changes must not get into the file. The spider
    may change the working directory before the end.
    """
    extension = crawler.get_extension(ScrapysSpiderState)
    if extension is None:
        return
    if extension.jobdir:
        extension.jobdir = str(Path(extension.jobdir).absolute())
    close = extension.spider_closed
    crawler.signals.disconnect(close, signals.spider_closed)

    def opened() -> None:
        crawler.signals.connect(closed, signals.spider_closed, weak=False)

    def closed(spider: Spider) -> None:
        if not stopping.keeps_last:
            close(spider)

    # There is no other reference to these functions.
    crawler.signals.connect(opened, signals.spider_opened, weak=False)
