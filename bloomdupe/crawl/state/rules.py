"""Rules: which requests of a job the user keeps out, and which slots back off."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from w3lib.url import canonicalize_url

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import StoreError, StoreMismatchError
from bloomdupe.printable import logger_of
from bloomdupe.settings import check_patterns
from bloomdupe.store import files
from bloomdupe.store.files import open_regular
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence

    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

    Rule = dict[str, str]
    """A ``slot``, a ``pattern`` or both: requests of this slot, with URLs that match
    this regular expression. Or a ``url``, in any spelling with the same canonical form.
    """
    from collections.abc import Iterator
    from pathlib import Path


logger = logger_of(__name__)

MOST_BYTES = 1 << 20
FIELDS = {"blocked", "paused", "stop"}
KINDS = ({"slot"}, {"pattern"}, {"slot", "pattern"}, {"url"})
"""The fields that a rule of ``blocked`` may have."""


@dataclass(frozen=True)
class Rules:
    """The rules of a job; :meth:`of` reads them, and refuses what is no rule.

    As JSON they are an object with these fields, each of which may be missing:

    ``blocked``  list of rules, see ``Rule``
    ``paused``   list of the slots that get no requests
    ``stop``     number of nanoseconds of Unix time when the user has last asked a run
                 to stop
    """

    blocked: Sequence[Rule] = field(default_factory=list)
    paused: frozenset[str] = frozenset()
    stop: int = 0
    _slots: set[str] = field(default_factory=set, compare=False)
    _urls: set[str] = field(default_factory=set, compare=False)
    _patterns: list[tuple[str | None, re.Pattern[str]]] = field(
        default_factory=list, compare=False
    )

    @classmethod
    def read(cls, text: bytes | None, place: object) -> Self:
        """Read the JSON in a file or a key; None: there is none, and so no rule.

        Raises :class:`~bloomdupe.errors.StoreError` if it is anything but rules.
        """
        try:
            if text is not None and len(text) > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
            given = {} if text is None else json.loads(text)
            if not isinstance(given, dict):
                raise ValueError("it is no JSON object")  # noqa: TRY004 - of the file
            if unknown := sorted(given.keys() - FIELDS):
                raise ValueError(f"it has an unknown field {unknown[0][:80]!r}")
            return cls.of(**{"blocked": [], "paused": [], **given})
        except (ValueError, RecursionError) as error:
            raise refused(place, error) from error

    def written(self, place: object) -> bytes:
        """Return the JSON; raises :class:`StoreError` if it would be too large."""
        text = (json.dumps(self.values, indent=1) + "\n").encode()
        if len(text) > MOST_BYTES:
            raise StoreError(f"{place} would have more than {MOST_BYTES:,} bytes")
        return text

    @classmethod
    def of(cls, *, blocked: list[Rule], paused: list[str], stop: int = 0) -> Self:
        """Read the fields of the JSON; raises :class:`ValueError` if one is no rule."""
        if not (_are(blocked, dict) and _are(paused, str) and type(stop) is int):
            raise ValueError("a field has a value of another kind")
        found = cls(blocked, frozenset(paused), stop)
        for rule in blocked:
            found._read(rule)
        return found

    def _read(self, rule: Rule) -> None:
        if rule.keys() not in KINDS or not _are([*rule.values()], str):
            raise ValueError(f"it has an unknown rule {str(rule)[:80]}")
        if "url" in rule:
            self._urls.add(canonicalize_url(rule["url"]))
        elif "pattern" in rule:
            (pattern,) = check_patterns([rule["pattern"]], "a pattern")
            self._patterns.append((rule.get("slot"), pattern))
        else:
            self._slots.add(rule["slot"])

    @property
    def values(self) -> dict[str, Any]:
        """The fields as plain types, for JSON."""
        stop = {"stop": self.stop} if self.stop else {}
        blocked, paused = [*self.blocked], sorted(self.paused)
        return {"blocked": blocked, "paused": paused, **stop}

    def keep_out(self, slot: str, url: str) -> bool:
        """Whether they keep out a request of a slot for this URL."""
        return bool(self.blocked) and (
            slot in self._slots
            or any(
                only in (None, slot) and pattern.search(url)
                for only, pattern in self._patterns
            )
            or (bool(self._urls) and canonicalize_url(url) in self._urls)
        )

    # Changed rules

    def _with(self, **fields: object) -> Rules:
        return Rules.of(**{**self.values, **fields})

    def adding(self, kind: str, given: Iterable[Rule | str]) -> Rules:
        """Return them with more that is ``blocked`` or ``paused``."""
        there = self.values[kind]
        return self._with(**{kind: there + [one for one in given if one not in there]})

    def removing(self, kind: str, given: Iterable[Rule | str]) -> Rules:
        """Return them without some that is ``blocked`` or ``paused``.

        Raises :class:`~bloomdupe.errors.StoreMismatchError` if it is not.
        """
        left = self.values[kind]
        for one in given:
            if one not in left:
                now = "; ".join(map(described, left)) or "nothing"
                raise StoreMismatchError(
                    f"{described(one)} is not {kind}; {kind} now: {now}"
                )
            left.remove(one)
        return self._with(**{kind: left})

    def stopping(self, now: int) -> Rules:
        """Return them so that the present run stops."""
        return self._with(stop=max(now, self.stop + 1))


def refused(place: object, error: Exception) -> StoreError:
    """Return the error for rules in a file or a key that cannot be read."""
    why = getattr(error, "strerror", None) or error
    return StoreError(
        f"cannot read {place}: {why!s:.600}; correct it, or delete it: then nothing is"
        " blocked or paused"
    )


def _are(given: object, kind: type) -> bool:
    """Whether this is a list of values of one kind."""
    return isinstance(given, list) and all(type(one) is kind for one in given)


def rule_of(url: str) -> Rule:
    """Return the rule of ``blocked`` for a URL, the same for all its spellings."""
    return {"url": canonicalize_url(url)}


def described(rule: Rule | str) -> str:
    """Return what is ``blocked``, or a slot that is ``paused``, in words."""
    given = {"slot": rule} if isinstance(rule, str) else rule
    return given.get("url") or ", ".join(
        f"{name} {given[name]}" for name in ("slot", "pattern") if name in given
    )


class RulesInForce:
    """The rules that a process obeys: all questions about a request come here.

    A request that is kept out is not marked as seen: once the rule is removed, a page
    that links to it yields it again. ``read`` returns the text of the rules in a
    ``place``.
    """

    def __init__(
        self,
        read: Callable[[], bytes | None],
        place: object,
        stats: StatsCollector,
    ) -> None:
        self._read = read
        self._place = place
        self._stats = stats
        self._text = read()
        self._trouble = ""
        self.now = Rules.read(self._text, place)

    def drop(self, slot: str, url: str) -> bool:
        """Whether a rule keeps out a request of this slot and URL; counts it."""
        found = self.now.keep_out(slot, url)
        if found:
            self._stats.inc_value("bloomdupe/dropped_blocked")
        return found

    def update(self) -> Rules | None:
        """Obey the rules of the user, if they have changed; return those before."""
        try:
            text = self._read()
            if text == self._text:
                return None
            self._text, self._trouble = text, ""
            before, self.now = self.now, Rules.read(text, self._place)
        except StoreError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                logger.warning(
                    "%(error)s. Until then the crawl keeps the rules that it has",
                    {"error": error},
                )
            return None
        self.say(before)
        return before

    def say(self, before: Rules | None = None) -> None:
        """Log the rules that differ from those ``before``.

        Before a run, there are none.
        """
        known = before or Rules()
        if self.now.blocked != known.blocked:
            logger.info(
                "`bloomdupe block` keeps requests out by %(rules)s; the stat"
                " bloomdupe/dropped_blocked counts these requests",
                {"rules": plural(len(self.now.blocked), "rule")},
            )
        if self.now.paused != known.paused:
            slots = ", ".join(sorted(self.now.paused)) or "none"
            logger.info(
                "Paused slots get no requests until `bloomdupe resume`: %(slots)s",
                {"slots": slots},
            )


def text_of_rules(store: Path) -> bytes | None:
    """Return what is in the file, or the beginning if it is too large; None: no file.

    Raises :class:`~bloomdupe.errors.StoreError` if it cannot be read.
    """
    place = store / files.RULES
    try:
        with open(open_regular(place), "rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused(place, error) from error


def rules_of(store: Path) -> Rules:
    """Return the rules of a store; raises :class:`~bloomdupe.errors.StoreError`."""
    return Rules.read(text_of_rules(store), store / files.RULES)


def change_rules(store: Path, changed: Callable[[Rules], Rules]) -> Rules:
    """Replace the rules in the file by the result of ``changed``, and return it.

    Processes that change it at the same time do so one after another.
    """
    files.identify(store)
    place = store / files.RULES
    with explained(f"cannot write {place}", store), _locked(store):
        rules = changed(rules_of(store))
        files.write_file(place, [rules.written(place)])
    return rules


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock a directory against other processes that lock it."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
