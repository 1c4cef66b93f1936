"""Tally: counts of a partition that change when its requests are settled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    Numbers: TypeAlias = Mapping[str, Mapping[str, int]]
    """Counts by group and name."""

__all__ = ["Tally", "packed_groups", "sum_of", "unpacked_groups"]


def sum_of(some: Iterable[Numbers]) -> dict[str, dict[str, int]]:
    """Add counts."""
    total: dict[str, dict[str, int]] = {}
    for counts in some:
        for group, numbers in counts.items():
            there = total.setdefault(group, {})
            for name, number in numbers.items():
                there[name] = there.get(name, 0) + number
    return total


def packed_groups(counts: Numbers) -> list[str]:
    """Return each group and its numbers, in JSON, as fields and values of a hash."""
    return [
        word
        for group, numbers in counts.items()
        for word in (group, json.dumps(numbers, separators=(",", ":")))
    ]


def unpacked_groups(words: Sequence[bytes]) -> dict[str, dict[str, int]]:
    """Read the fields and values of a hash."""
    pairs = zip(words[::2], words[1::2], strict=True)
    return {group.decode(): json.loads(numbers) for group, numbers in pairs}


class Tally:
    """The counts of a partition, for its owner.

    Nothing but a step of the owner changes them, so the owner sends the new numbers in
    the step, and Redis need not add. Numbers of further groups than ``most`` are left
    out.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._groups: dict[str, Mapping[str, int]] = {}

    def begin(self, words: Sequence[bytes]) -> None:
        """Begin with the stored counts; see :func:`unpacked_groups`."""
        self._groups = dict(unpacked_groups(words))

    def plus(self, some: Iterable[Numbers]) -> dict[str, dict[str, int]]:
        """Return the new numbers of the groups that change."""
        added = sum_of(some)
        there = self._groups
        new = [group for group in added if group not in there]
        room = max(0, self._most - len(there))
        left_out = set(new[room:])
        return {
            group: sum_of([{group: there.get(group, {})}, {group: numbers}])[group]
            for group, numbers in added.items()
            if group not in left_out
        }

    def change(self, groups: Numbers) -> None:
        """Remember the numbers that a step has stored."""
        self._groups.update(groups)
