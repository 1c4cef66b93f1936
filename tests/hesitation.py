"""Hesitation: how the tests are tried on a machine that is sometimes slow."""

from __future__ import annotations

import os
import random
import time

__all__ = ["hesitate"]


def hesitate() -> None:
    """Wait for a random time up to ``BLOOMDUPE_TEST_DELAY``, in seconds.

    The tests' own servers call it before each answer, and their children and servers
    before each start. A test that fails by it has assumed how long something takes, or
    what is first.
    """
    most = float(os.environ.get("BLOOMDUPE_TEST_DELAY") or 0)
    if most:
        time.sleep(random.SystemRandom().uniform(0, most))
