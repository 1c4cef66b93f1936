"""``python -m bloomdupe``, where the command ``bloomdupe`` is not on the PATH."""

from __future__ import annotations

import sys

from bloomdupe.cli.start import main

if __name__ == "__main__":
    sys.exit(main())
