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

    from support.site import Visit

    Rows = Sequence[Sequence[str]]

ADDON: dict[str, Any] = {"ADDONS": {"bloomdupe.Addon": 500}}


def parser_of(doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """Return a parser with an option for each default."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in defaults.items():
        what: dict[str, Any] = {"type": type(value), "metavar": "N", "default": value}
        if isinstance(value, bool):
            what = {"action": "store_true"}
        parser.add_argument(f"--{name.replace('_', '-')}", **what)
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
    """Serve a site of ``crawl_child.page()``; yield the URL of its first page."""
    from crawl_child import page
    from support.site import Answer, Site

    def answer(visit: Visit) -> Answer:
        number = int(visit.path.rpartition("/")[2])
        return Answer(page(number, pages, links, "/articles/page/{}".format))

    with Site(answer) as site:
        yield f"{site.base}/articles/page/0"


class Report:
    """Prints tables, and remembers which bounds were missed."""

    def __init__(self, machine: dict[str, str]) -> None:
        self._missed: list[str] = []
        for name, value in machine.items():
            print(f"* {name}: {value}")

    def bound(self, what: str, value: float, limit: float, form: str = ".2f") -> str:
        """Return ``value`` as text, with its bound and whether it is kept."""
        if value > limit:
            self._missed.append(f"{what}: {value:{form}}, bound {limit:{form}}")
        kept = "ok" if value <= limit else "MISSED"
        return f"{value:{form}} (≤ {limit:{form}} {kept})"

    def table(self, title: str, note: str, header: Sequence[str], rows: Rows) -> None:
        """Print a table under a heading and a note on how it was measured."""
        print(f"\n### {title}\n\n{note}\n")
        for row in (header, ["---"] * len(header), *rows):
            print(f"| {' | '.join(row)} |", flush=True)

    def finish(self) -> int:
        """Print the missed goals; return the exit code."""
        for line in self._missed:
            print(f"MISSED: {line}")
        return int(bool(self._missed))
