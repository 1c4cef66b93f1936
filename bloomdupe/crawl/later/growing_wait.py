"""GrowingWait: seconds to wait after the first, second, third ... failure in a row."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GrowingWait"]


@dataclass(frozen=True)
class GrowingWait:
    """Waits that grow by a factor up to a limit; half of each wait is random.

    This is *equal jitter* as in Marc Brooker, "Exponential Backoff And Jitter", AWS
    Architecture Blog, 2015: randomness keeps requests that have failed together from
    coming back together. His *full jitter* may wait for no time at all, and a server
    that has just failed would get all tries at once.
    """

    base: float
    """Seconds after the first failure, at most."""
    factor: float
    limit: float
    """Seconds, at most."""
    draw: Callable[[], float] = random.random
    """Returns a number from 0 to 1."""

    def longest(self, failures: int) -> float:
        """Return the longest wait after so many failures in a row, in seconds."""
        exponent = (failures - 1) * math.log(self.factor)
        if exponent >= math.log(self.limit / self.base):
            return self.limit  # the power might be too large for a float
        return self.base * math.exp(exponent)

    def seconds(self, failures: int) -> float:
        """Draw the wait after so many failures in a row."""
        return self.longest(failures) * (1 + self.draw()) / 2
