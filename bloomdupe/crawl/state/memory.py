"""SpiderMemory: state and attributes of the spider, as of the last checkpoint."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import signals
from scrapy.extensions.spiderstate import SpiderState as ScrapysSpiderState
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import MOST_BYTES as MOST_OF_VALUE
from bloomdupe.requests.values import TooLargeError, pack, unpack
from bloomdupe.store.format import BLOBS
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from bloomdupe.store.participant import Change

logger = logger_of(__name__)

STATE, ATTRIBUTES = "state", "attributes"
"""Names in the table ``blobs``."""
MOST_BYTES = 1_000_000
"""The attributes of a spider that are stored, together."""
MOST_PARTS = 100_000
"""A container with more elements counts as too large, and is not packed."""

_NOT_OURS = frozenset({"name", "crawler", "settings", "custom_settings", STATE})
_ABSENT = b""
_TEXTS = frozenset({str, bytes})
_SIZED = _TEXTS | {
    list, tuple, dict, set, frozenset, Counter, OrderedDict, defaultdict, deque,
}  # fmt: skip
_OF_CLASSES = _SIZED | {int, float, bool, type(None)}
"""Types of a class's attributes that are looked at."""


class _Look(NamedTuple):
    """An attribute at the time of the last look."""

    packed: bytes | None
    value: object = None
    """Itself, if it cannot be stored."""
    size: int = -1
    """The number of its elements then, if it has any."""
    large: bool = False
    """Whether it is not stored because of its size."""

    def same_as(self, other: _Look | None) -> bool:
        """Whether the attribute is the same.

        Of a value that cannot be stored, only a change of its size is noticed.
        """
        if other is None:
            return False
        if self.packed is None:
            return self.value is other.value and self.size == other.size
        return self.packed == other.packed


class SpiderMemory(Participant):
    """Keeps ``spider.state``, and plain attributes of the spider.

    **The state** is kept whole. Scrapy's extension still writes ``JOBDIR/spider.state``
    when the crawl stops. What is stored here is at least as new, and the next run uses
    it. A state that cannot be stored is left to Scrapy, and a warning says so.

    **Attributes** are kept, unless ``attributes`` is False, as far as they differ from
    their values at the opening, when the signal ``spider_opened`` is handled:
    components of Scrapy have set theirs by then, and ``start()`` has not begun. An
    attribute of the class is one of the spider, too. The record maps each name to a
    digest of its value at the opening, and to its value now, packed; nil in the place
    of a value that cannot be stored. A run that has not ``resumed`` begins without
    them. Those in ``places`` name files, so no store decides on them, nor on anything
    for which the class has a method or a property.

    Nothing is pickled. All is packed for each checkpoint, to see whether it has
    changed: that takes 2 us for a number or a short text, and 2 ms for 20,000 URLs. An
    attribute that is too large takes nothing.

    Of several workers, only what the spider of the one that ``leads`` remembers is
    stored. Another one keeps its own here: after a refused commit it goes back to that.
    """

    def __init__(
        self,
        crawler: Crawler,
        stored: Mapping[str, bytes],
        *,
        resumed: bool,
        attributes: bool = True,
        places: Collection[str] = (),
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        assert crawler.spider is not None  # noqa: S101 - it is open
        assert crawler.stats is not None  # noqa: S101 - likewise
        self._crawler = crawler
        self._spider: Any = crawler.spider
        self._stats = crawler.stats
        self._leads = leads
        self._stored = {
            name: value
            for name, value in stored.items()
            if resumed or name != ATTRIBUTES
        }
        """Values by name, as of the last checkpoint."""
        self._written: dict[str, bytes | None] = {}
        """Those that the store has, as far as this worker knows."""
        code, self._of_classes = _in_classes(type(self._spider))
        self._left_out = {*_NOT_OURS, *code, *places}
        self._opened: dict[str, _Look] | None = None
        """The attributes at the opening of the spider; None before that."""
        self._digests: dict[str, bytes] = {}
        self._lost: set[str] = set()
        """Names of attributes that an earlier run has set, and could not store."""
        self._too_large: set[str] = set()
        self._warned: set[str] = set()
        if STATE in self._stored:
            self._restore_state()
            self._keep_scrapy_from_reading()
        if attributes:
            crawler.signals.connect(self.spider_opened, signals.spider_opened)

    def spider_opened(self) -> None:
        """Note the values of the attributes, and restore those of the last run."""
        values = dict(self._values())
        self._opened = {name: _look(value) for name, value in values.items()}
        self._digests = {
            name: _digest(value, self._opened[name]) for name, value in values.items()
        }
        self._restore_attributes()

    def read_again(self, stored: Mapping[str, bytes]) -> None:
        """Let the spider remember the state of the last commit, and nothing else.

        The leader's memory is what is ``stored`` by now.
        """
        if self._leads():
            self._stored = dict(stored)
        self._written = {}
        self._restore_state()
        if self._opened is None:
            return
        own = vars(self._spider)
        for name, value in [*self._values()]:
            opened = self._opened.get(name)
            if opened is None:
                own.pop(name, None)
            elif opened.packed is not None and not _look(value).same_as(opened):
                own[name] = unpack(opened.packed)
        self._restore_attributes()

    def _restore_state(self) -> None:
        packed = self._stored.get(STATE)
        try:
            state = {} if packed is None else unpack(packed)
        except Exception as error:
            raise UnserializableError(
                f"the stored spider.state cannot be read: {error}. Put the job back"
                " from a backup"
            ) from error
        self._spider.state = state

    def _keep_scrapy_from_reading(self) -> None:
        """Keep Scrapy from giving the spider what is in its own file.

        A run that died while it wrote that file has left half of it, which cannot be
        read.
        """
        scrapys = self._crawler.get_extension(ScrapysSpiderState)
        if type(scrapys) is ScrapysSpiderState:
            opened = scrapys.spider_opened
            self._crawler.signals.disconnect(opened, signals.spider_opened)
        else:  # it was connected first, so ours runs last
            put = self._restore_state
            self._crawler.signals.connect(put, signals.spider_opened)

    def _restore_attributes(self) -> None:
        """Give the spider its stored values, unless it was opened with other values."""
        stored = self._stored.get(ATTRIBUTES)
        for name, (digest, packed) in unpack(stored).items() if stored else ():
            if name in self._left_out or self._digests.get(name, _ABSENT) != digest:
                continue
            if packed is None:
                self._lost.add(name)
                continue
            try:
                vars(self._spider)[name] = unpack(packed)
            except Exception as error:  # noqa: BLE001 - of the objects in it
                self._lost.add(name)
                self._warn(
                    "spider.%(name)s cannot be restored: %(error)s",
                    name=name,
                    error=error,
                )

    # Checkpoints

    @property
    def changed(self) -> bool:
        """Whether ``spider.state`` has changed; attributes wait for their turn."""
        return self._state() != self._stored.get(STATE)

    @property
    def is_empty(self) -> bool:
        """Whether the spider remembers nothing, and has not remembered anything."""
        return not (
            getattr(self._spider, "state", None)
            or (
                self._opened is not None
                and (ATTRIBUTES in self._stored or self._attributes() is not None)
            )
        )

    def prepare(self) -> Part:
        """Return the changes for the next checkpoint.

        That is all of it, if this worker may have become the leader just now.
        """
        found = {STATE: self._state(), ATTRIBUTES: self._attributes()}
        now = {name: value for name, value in found.items() if value is not None}

        written = found if self._leads() else {}
        changes: list[Change] = [
            (name.encode(), value)
            for name, value in written.items()
            if self._written.get(name, b"") != value
        ]

        def done() -> None:
            self._stored, self._written = now, written

        return Part(changes={BLOBS: changes}, done=done)

    def _state(self) -> bytes | None:
        """Return the state as bytes; None if it is missing or cannot be stored."""
        state = getattr(self._spider, "state", None)
        if state is None:
            return None
        try:
            return pack(state)
        except UnserializableError as error:
            if STATE not in self._warned:
                self._warned.add(STATE)
                self._warn(
                    "spider.state cannot be stored with the checkpoints, so after a"
                    " crash it is as it was when the crawl last stopped in good order:"
                    " %(reason)s",
                    reason=error,
                )
            return None

    def _attributes(self) -> bytes | None:
        """Return the record of attributes; None if none has changed."""
        if self._opened is None:
            return self._stored.get(ATTRIBUTES)
        changed: dict[str, bytes | None] = {}
        for name, value in [*self._values()]:
            opened = self._opened.get(name)
            look = _look(value, opened)
            if look.same_as(opened):
                continue
            changed[name] = look.packed
            if look.large:
                self._leave_out(name)
        if missing := self._lost - changed.keys():
            self._warn_of_skipped(missing)
        changed |= dict.fromkeys((self._lost | self._too_large) - changed.keys())
        while sum(len(packed or b"") for packed in changed.values()) > MOST_BYTES:
            largest = max(changed, key=lambda name: len(changed[name] or b""))
            changed[largest] = None
            self._leave_out(largest)
        if not changed:
            return None
        digests = self._digests
        return pack({n: (digests.get(n, _ABSENT), changed[n]) for n in sorted(changed)})

    def _values(self) -> Iterator[tuple[str, Any]]:
        own, left_out = vars(self._spider), self._left_out
        for namespace, name in self._of_classes:
            if name not in own and name not in left_out and name in namespace:
                yield name, namespace[name]
        for name, value in own.items():
            if name not in left_out:
                yield name, value

    # Warnings

    def _leave_out(self, name: str) -> None:
        self._left_out.add(name)
        self._too_large.add(name)
        self._warn(
            "the attribute %(name)s of the spider is too large to be stored: a run that"
            " resumes begins without it. Put large data into a file or a database, or"
            " set BLOOMDUPE_SPIDER_ATTRIBUTES = False if no run needs it",
            name=name,
        )

    def _warn_of_skipped(self, missing: Collection[str]) -> None:
        """Warn once of attributes that start requests may have to set again."""
        skipped = self._stats.get_value("bloomdupe/start_requests_skipped")
        if ATTRIBUTES in self._warned or not skipped:
            return
        self._warned.add(ATTRIBUTES)
        self._warn(
            "start requests of an earlier run are done, so this run skips them; but it"
            " lacks what their callbacks had put into %(names)s, because that cannot be"
            " stored. Set it in start(), or keep the plain values from which it is"
            " made: a token, cookies",
            names=", ".join(f"self.{name}" for name in sorted(missing)),
        )

    def _warn(self, message: str, **values: object) -> None:
        logger.warning(message, values, extra={"spider": self._spider})


def _look(value: Any, opened: _Look | None = None) -> _Look:  # noqa: ANN401 - anything
    """Look at a value; quickly, if it was too large at the opening."""
    kind = type(value)
    size = len(value) if kind in _SIZED else -1
    if opened is not None and opened.large:
        again = _Look(None, value, size, large=True)
        if again.same_as(opened):
            return again
    large = size > (MOST_BYTES if kind in _TEXTS else MOST_PARTS)
    packed = b""
    if not large:
        try:
            packed = pack(value, most=MOST_OF_VALUE)
        except TooLargeError:
            large = True
        except Exception:  # noqa: BLE001 - whatever the value's own code raises
            return _Look(None, value, size)
    if large or len(packed) > MOST_BYTES:
        return _Look(None, value, size, large=True)
    return _Look(packed)


def _digest(value: object, look: _Look) -> bytes:
    """Return a digest that is the same for the same value in each process.

    Of a value that cannot be stored, it covers type and size.
    """
    if look.packed is None:
        content = f"{global_object_name(type(value))} {look.size}".encode()
    else:
        content = look.packed
    return hashlib.blake2b(content, digest_size=16).digest()


def _in_classes(class_: type) -> tuple[set[str], list[tuple[Mapping[str, Any], str]]]:
    """Return the attributes of the classes of a spider.

    These are the names of code, such as methods and properties; and the names of plain
    values, each with the namespace that has it.
    """
    found: dict[str, tuple[Mapping[str, Any], Any]] = {}
    for each in reversed(class_.__mro__):
        space = vars(each)
        found |= {name: (space, value) for name, value in space.items()}
    code = {
        name
        for name, (_, value) in found.items()
        if name.startswith("__") or callable(value) or hasattr(type(value), "__get__")
    }
    plain = [
        (namespace, name)
        for name, (namespace, value) in found.items()
        if name not in code and type(value) in _OF_CLASSES
    ]
    return code, plain


def leave_scrapys_file(crawler: Crawler, failed: Callable[[], bool]) -> None:
    """Keep Scrapy from writing ``JOBDIR/spider.state`` until the spider is open.

    When a crawl fails to open, Scrapy would empty the file first, and only then find
    that the spider has no state yet: the next run would have no state, either. When a
    crawl has ``failed``, the last checkpoint is valid, and later changes must not get
    into the file. The spider may change the working directory before the end.
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
        if not failed():
            close(spider)

    # There is no other reference to these functions.
    crawler.signals.connect(opened, signals.spider_opened, weak=False)
