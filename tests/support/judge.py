"""Judge: compares the requests and output of a crawl with an undisturbed crawl.

It looks at the log of the site and at the items. It asks no process that was killed.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

SHOWN = 3
"""Examples in a complaint."""


@dataclass
class Verdict:
    """Complaints of two kinds. It is true without any."""

    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Done twice, or never asked for by an undisturbed crawl."""

    def __bool__(self) -> bool:
        return not self.complaints

    def __iadd__(self, other: Verdict) -> Self:
        self.lost += other.lost
        self.wrong += other.wrong
        return self

    @property
    def complaints(self) -> list[str]:
        return self.lost + self.wrong


def lines(items: Iterable[Any]) -> Counter[str]:
    """Return items so that they can be counted."""
    return Counter(json.dumps(item, sort_keys=True) for item in items)


def compare(expected: Counter[str], found: Counter[str], where: str = "") -> Verdict:
    """Compare items, each of which must be there as often as it is expected."""
    missing, surplus = expected - found, found - expected
    place = f"{where}: " if where else ""

    def words(what: str, items: Counter[str]) -> list[str]:
        if not items:
            return []
        some = ", ".join(sorted(items)[:SHOWN])
        return [f"{place}{items.total()} of {expected.total()} {what}: {some}"]

    return Verdict(words("missing", missing), words("too many", surplus))


def compare_visits(
    expected: Counter[str], visits: Counter[str], again: int | None = None
) -> Verdict:
    """Compare the log of the site with that of an undisturbed crawl.

    So many requests may be made ``again``; None if any number may.
    """
    verdict = Verdict()
    if lost := expected - visits:
        verdict.lost.append(f"never asked for: {sorted(lost)[:SHOWN]}")
    if strange := set(visits) - set(expected):
        verdict.wrong.append(f"asked for, but not before: {sorted(strange)[:SHOWN]}")
    repeated = (visits - expected).total()
    if again is not None and repeated > again:
        verdict.wrong.append(f"{repeated} requests again, {again} allowed")
    return verdict
