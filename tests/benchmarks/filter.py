"""Benchmark of the filter, against its bounds and its rivals.

Prints machine and versions, then Markdown tables. Each figure that has a bound
shows it, with "ok" or "MISSED"; the exit code is 1 if one is missed. CPU times are
those of this process; contestants take turns within one run.
"""

from __future__ import annotations

import argparse
import gc
import logging
import random
import sys
import tempfile
from pathlib import Path

import machine
import rates
import speed
import stores
from runner import Report, parser_of

TABLES = ("accuracy", "growth", "speed", "open", "bytes", "memory")


def chosen(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in TABLES:
            raise argparse.ArgumentTypeError(
                f"{name!r} is not one of {', '.join(TABLES)}"
            )
    return names


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small numbers: a minute instead of twenty; figures are rough, and the"
        " bounds on speed at n = 1 M and 10 M are not judged",
    )
    parser.add_argument(
        "--only",
        type=chosen,
        default=list(TABLES),
        metavar="TABLE,...",
        help=f"tables to make, of {', '.join(TABLES)}",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where stores are made, on a real disk (default: %(default)s); the full"
        " run needs 8 GB there and as much memory",
    )
    arguments = parser.parse_args()
    kind = machine.file_system(arguments.dir)
    if kind in ("tmpfs", "ramfs"):
        parser.error(f"{arguments.dir} is {kind}: name a directory on a disk by --dir")
    quick: bool = arguments.quick
    report = Report(machine.describe(*machine.RIVALS) | {"file system": kind})
    # Tables about full filters need no warning that they are full.
    logging.getLogger("bloomdupe").setLevel(logging.ERROR)
    # As `timeit` does: no variant pays for the garbage of another variant.
    gc.disable()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        directory = Path(place)
        for name in arguments.only:
            if name == "accuracy":
                rates.accuracy(report, quick=quick)
            elif name == "growth":
                rates.growth(report, quick=quick)
            elif name == "speed":
                speed.speed(report, directory, quick=quick, dice=random.Random(1))
            elif name == "open":
                stores.opening(report, directory, quick=quick)
            elif name == "bytes":
                stores.bytes_written(report, directory, quick=quick)
            else:
                stores.memory(report, directory)
    return report.finish(arguments.json)


if __name__ == "__main__":
    sys.exit(main())
