"""Tells each private name that the installed Scrapy lacks.

``python tests/scrapys_own/private_names.py`` looks for all names that bloomdupe uses.
Exit status 1 if a name is missing, but for those that only some versions have.
"""

from __future__ import annotations

import sys

from scrapy import __version__

from bloomdupe.inside_scrapy.private_names import NEEDED, OF_PIPELINES, missing


def main() -> int:
    """Print what is missing; return the exit status."""
    gone = missing((*NEEDED, *OF_PIPELINES))
    for name in gone:
        print(f"{name}: without it no crawl begins")
    print(f"Scrapy {__version__}: {len(gone)} private names are missing")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
