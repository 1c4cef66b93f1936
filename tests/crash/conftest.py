from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
# Real crawls of the sample site; crawler itself is never installed.
sys.path += [str(HERE.parent / "crawler"), str(HERE.parents[1])]
