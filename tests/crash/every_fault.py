"""All fault classes, in the order of the fault plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kills import Kills

if TYPE_CHECKING:
    from trial import Fault

EVERY_FAULT: tuple[Fault, ...] = (Kills(),)
