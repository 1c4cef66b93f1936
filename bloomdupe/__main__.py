"""The start of ``bloomdupe``, also as ``python -m bloomdupe``."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Import the command line and run it; return the exit code.

    The import takes a moment. Until it is done, Ctrl-C ends the process at once,
    without a traceback.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bloomdupe.cli import main as cli

    signal.signal(signal.SIGINT, before)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
