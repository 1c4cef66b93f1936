"""The one way in which a benchmark is run: options, rounds, crawls, tables, bounds."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
# An installed bloomdupe comes first; without one, the checkout is measured.
sys.path += [str(HERE.parent), str(HERE.parents[1])]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Rows = Sequence[Sequence[str]]

ADDON: dict[str, Any] = {"ADDONS": {"bloomdupe.Addon": 500}}


def parser_of(doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """Return a parser with an option for each default, and ``--json``."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in defaults.items():
        what: dict[str, Any] = {"type": type(value), "metavar": "N", "default": value}
        if isinstance(value, bool):
            what = {"action": "store_true"}
        parser.add_argument(f"--{name.replace('_', '-')}", **what)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write figures")
    return parser


def options(doc: str | None, **defaults: Any) -> argparse.Namespace:
    """Read the options of a benchmark."""
    return parser_of(doc, **defaults).parse_args()


class Figures:
    """The results of one contestant, a round each."""

    def __init__(self) -> None:
        self.rounds: list[Mapping[str, Any]] = []

    def values(self, what: str) -> list[float]:
        return [one[what] or 0 for one in self.rounds]

    def value(self, what: str) -> float:
        return statistics.median(self.values(what))

    def median(self, what: str, form: str = ",.2f", scale: float = 1) -> str:
        return f"{self.value(what) * scale:{form}}"

    def ratios(self, base: Figures, what: str) -> list[float]:
        """Compare within each round."""
        pairs = zip(self.values(what), base.values(what), strict=True)
        return [mine / other for mine, other in pairs]

    def of(self, base: Figures | None, what: str, form: str = ".2f") -> str:
        """Return the ratio to another contestant: median and range."""
        if base is None:
            return "-"
        found = self.ratios(base, what)
        low, high = min(found), max(found)
        return f"{statistics.median(found):{form}} ({low:{form}}-{high:{form}})"


def in_turn(
    rounds: int, ways: Mapping[str, Callable[[], Mapping[str, Any]]]
) -> dict[str, Figures]:
    """Measure all contestants in each round."""
    found = {name: Figures() for name in ways}
    for _ in range(rounds):
        for name, measure in ways.items():
            found[name].rounds.append(measure())
    return found


def child(spider: str, settings: Mapping[str, Any], **arguments: Any) -> list[str]:
    """Return the command of a crawl in a process of its own."""
    script = str(HERE / "crawl_child.py")
    return [sys.executable, script, spider, json.dumps(settings), json.dumps(arguments)]


def crawl(
    spider: str,
    settings: Mapping[str, Any],
    *,
    folder: Path | None = None,
    finish: str | None = "finished",
    **arguments: Any,
) -> dict[str, Any]:
    """Crawl in a fresh process, in a folder; return its stats and its costs."""
    with tempfile.TemporaryDirectory() as new:
        done = subprocess.run(
            child(spider, settings, **arguments),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=folder or new,
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert finish in (None, found["finish_reason"]), found
    return found


@contextmanager
def graph(pages: int, links: int) -> Iterator[str]:
    """Serve a site from a process of its own; yield the URL of its first page."""
    command = [sys.executable, str(HERE / "graph_server.py"), str(pages), str(links)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = server.stdout.readline().strip()
            yield f"http://127.0.0.1:{port}/articles/page/0"
        finally:
            server.terminate()


class Report:
    """Prints tables, and remembers them and which bounds were missed."""

    def __init__(self, machine: dict[str, str]) -> None:
        self.missed: list[str] = []
        self._tables: list[dict[str, Any]] = []
        self._bounds: list[dict[str, Any]] = []
        self._machine = machine
        for name, value in machine.items():
            print(f"* {name}: {value}")

    def bound(self, what: str, value: float, limit: float, form: str = ".2f") -> str:
        """Return ``value`` as text, with its bound and whether it is kept."""
        kept = value <= limit
        self._bounds.append(
            {"what": what, "value": value, "limit": limit, "kept": kept}
        )
        if not kept:
            self.missed.append(f"{what}: {value:{form}}, bound {limit:{form}}")
        return f"{value:{form}} (≤ {limit:{form}} {'ok' if kept else 'MISSED'})"

    def table(self, title: str, note: str, header: Sequence[str], rows: Rows) -> None:
        """Print a table under a heading and a note on how it was measured."""
        self._tables.append(
            {"title": title, "note": note, "header": list(header), "rows": list(rows)}
        )
        print(f"\n### {title}\n\n{note}\n")
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        for row in (header, ["-" * width for width in widths], *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print(f"| {' | '.join(cells)} |", flush=True)

    def finish(self, file: Path | None) -> int:
        """Print the missed goals, write the JSON file; return the exit code."""
        kept = len(self._bounds) - len(self.missed)
        if self._bounds:
            print(f"\n{kept} of {len(self._bounds)} bounds kept.")
        for line in self.missed:
            print(f"MISSED: {line}")
        if file is not None:
            result = {
                "machine": self._machine,
                "tables": self._tables,
                "bounds": self._bounds,
            }
            file.write_text(json.dumps(result, indent=1) + "\n")
        return 1 if self.missed else 0
