"""The check of a store's file in this process: for a model, which checks every step.

It also reads a file that this process has open.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bloomdupe.store.lmdb import checked_reading
from bloomdupe.store.lmdb.check import CheckReport


def checked(data: Path) -> CheckReport:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(data, folder))
        return CheckReport(**checked_reading.examine(copy, lambda _: None))
