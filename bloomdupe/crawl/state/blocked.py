"""Blocked: requests that are refused by rules of the user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import StoreMismatchError, UnserializableError
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy import Request, Spider

    Rules = list[dict[str, Any]]

BLOCKED = "blocked"
"""Name of the filter's note that holds the rules."""

logger = logger_of(__name__)


class Blocked:
    """Drops each request, of any kind, that matches a rule of ``bloomdupe block``.

    A dropped request is not marked as seen: once the rule is removed, a page that links
    to it offers it again.

    ``rules`` is the note of the filter, a list of JSON objects. A rule has a ``slot``,
    a ``pattern``, or both, for requests of this slot with URLs that match this regular
    expression; or it has a ``url`` as Scrapy writes it, and ``key``, its fingerprint in
    hexadecimal. ``count`` is called for each request that is dropped.
    """

    def __init__(
        self,
        rules: Rules,
        key_of: Callable[[Request], bytes],
        count: Callable[[], object] = lambda: None,
    ) -> None:
        self._key_of = key_of
        self._count = count
        self.obey(rules)

    def obey(self, rules: Rules) -> None:
        """Obey these rules from now on."""
        self.rules = rules
        self._keys, self._slots, self._patterns = read_rules(rules)

    def drops(self, request: Request, slot: str) -> bool:
        """Whether a rule matches the request, which is of this slot; counts a match."""
        if not self.rules:
            return False
        found = (
            slot in self._slots
            or any(
                only in (None, slot) and regex.search(request.url)
                for only, regex in self._patterns
            )
            or (bool(self._keys) and self._key_of(request) in self._keys)
        )
        if found:
            self._count()
        return found

    def blocks(
        self, slot: str, payload: bytes, request_of: Callable[[bytes], Request]
    ) -> bool:
        """Whether a rule keeps a stored request out.

        A request that cannot be read is not kept out: the crawl reports it.
        """
        if not self.rules:
            return False
        try:
            return self.drops(request_of(payload), slot)
        except UnserializableError:
            return False

    def say(self, spider: Spider) -> None:
        """Log the number of rules."""
        logger.info(
            "`bloomdupe block` keeps requests out by %(rules)s; the stat"
            " bloomdupe/dropped_blocked counts these requests",
            {"rules": plural(len(self.rules), "rule")},
            extra={"spider": spider},
        )


def read_rules(
    rules: Rules,
) -> tuple[set[bytes], set[str], list[tuple[str | None, re.Pattern[str]]]]:
    """Return the fingerprints, the slots and the patterns of rules.

    Raises any exception for a rule that is not written as expected.
    """
    return (
        {bytes.fromhex(rule["key"]) for rule in rules if "key" in rule},
        {rule["slot"] for rule in rules if rule.keys() == {"slot"}},
        [
            (rule.get("slot"), re.compile(rule["pattern"]))
            for rule in rules
            if "pattern" in rule
        ],
    )


def changed_rules(
    there: Rules, given: Sequence[dict[str, Any]], *, undo: bool
) -> Rules:
    """Return the rules with the given rules, or without them (``undo``).

    Raises :class:`~bloomdupe.errors.StoreMismatchError` if there is no such rule.
    """
    if not undo:
        return there + [rule for rule in given if rule not in there]
    for rule in given:
        same = [
            one
            for one in there
            if one == rule or ("key" in rule and one.get("key") == rule["key"])
        ]
        if not same:
            raise StoreMismatchError(f"there is no such rule: {described(rule)}")
        there = [one for one in there if one not in same]
    return there


def described(rule: dict[str, Any]) -> str:
    """Return a rule in words."""
    if "url" in rule:
        return str(rule["url"])
    return ", ".join(
        f"{name} {rule[name]}" for name in ("slot", "pattern") if name in rule
    )
