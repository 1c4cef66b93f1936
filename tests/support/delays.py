"""Random delays, for the proof that no test depends on who is faster.

With ``BLOOMDUPE_TEST_DELAYS=SEED`` every answer of a test's server and every start of
a child waits for 0 to 300 ms.
"""

from __future__ import annotations

import os
import random
import time

LONGEST = 0.3
"""Seconds."""

_seed = os.environ.get("BLOOMDUPE_TEST_DELAYS")
_rng = random.Random(_seed)


def dawdle() -> None:
    """Wait for a random time, if the environment asks for it."""
    if _seed is not None:
        time.sleep(_rng.uniform(0, LONGEST))  # noqa: TID251 - slow on purpose
