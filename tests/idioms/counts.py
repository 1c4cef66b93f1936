"""Print the table of idioms for ``README.md``: ``python tests/idioms/counts.py``.

Each is crawled once, undisturbed, for the counts.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from judging import undisturbed
from table import load


def main() -> None:
    print("| idiom | description | requests | items |")
    print("|---|---|---:|---:|")
    theme = ""
    for name, idiom in load().items():
        if idiom.theme != theme:
            theme = idiom.theme
            print(f"| **{theme.replace('_', ' ')}** | | | |")
        model = undisturbed(idiom)
        row = (name, idiom.about, model.visits.total(), model.items.total())
        print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
