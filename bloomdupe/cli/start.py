"""The start of ``bloomdupe``: Ctrl-C ends it without a traceback from the beginning."""

from __future__ import annotations

import signal


def main() -> int:
    """Import the command line and run it; return the exit code.

    The import takes a moment. Until it is done, Ctrl-C ends the process at once.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bloomdupe.cli import main as cli

    signal.signal(signal.SIGINT, before)
    return cli.main()
