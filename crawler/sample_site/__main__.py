"""``python -m crawler.sample_site``: the sample site as a server of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from crawler.sample_site import SampleServer, SampleSite, open_port


def main() -> int:
    """Serve until interrupted; print the address when it can be reached."""
    parser = argparse.ArgumentParser(
        prog="python -m crawler.sample_site",
        description="Serve the sample site on 127.0.0.1 until interrupted.",
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port to listen on (default: a free one)"
    )
    parser.add_argument(
        "--log", type=Path, help="append a line STATUS METHOD URI for each request"
    )
    parser.add_argument(
        "--pages", type=int, default=2000, help="size of the site (default: 2000)"
    )
    parser.add_argument(
        "--delay", type=float, default=0, help="seconds before each answer (default: 0)"
    )
    options = parser.parse_args()
    try:
        server = SampleServer(SampleSite(options.pages), options.log, options.delay)
        listening = open_port(options.port)
    except (OSError, OverflowError, ValueError) as error:
        parser.error(str(error))
    sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}/\n")
    sys.stdout.flush()
    server.run(listening)
    return 0


if __name__ == "__main__":
    sys.exit(main())
