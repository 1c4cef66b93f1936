"""Tests of Scrapy's own suite that differ when the add-on is its default.

    python tests/scrapys_own/compare.py scrapy-2.19.0.tar.gz [--jobdir] [-n 2 ...]
    python tests/scrapys_own/compare.py ... --of scrapy_poet-0.27.2.tar.gz

Unpacks Scrapy's source distribution twice. In one copy the add-on is a default setting;
with ``--jobdir`` each crawler of both gets a ``JOBDIR`` of its own. Runs the tests of
both and prints those with different outcomes, and the differences. Exit status 1 if
there is any.

With ``--of``, the tests are those of another package, on both copies of Scrapy. Here
the add-on comes beside the add-ons of each crawler.

The requirements of the tests must be installed (see ``tox.ini`` in the distribution),
and this package. Scrapy's take about ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

ADDON = '\nADDONS = {"bloomdupe.Addon": 500}\n'
"""For ``scrapy/settings/default_settings.py``."""

CHANGED = """

def _changed(init):
    def wrapped(self, *args, **kwargs):
        init(self, *args, **kwargs)
        {}

    return wrapped


Crawler.__init__ = _changed(Crawler.__init__)
"""
"""For ``scrapy/crawler.py``: what each crawler does with its settings."""

BESIDE = """
        addons = {**self.settings.getdict("ADDONS"), "bloomdupe.Addon": 500}
        self.settings.set("ADDONS", addons, "cmdline")
"""
"""A test with add-ons of its own replaces the default."""

JOBDIR = """
        import tempfile

        if self.settings["JOBDIR"] is None:
            self.settings.set("JOBDIR", tempfile.mkdtemp(prefix="job"), "default")
"""

WARNINGS = (
    "Class-scoped fixtures defined as instance methods",
    "Session-scoped fixtures defined as instance methods",
    "fixture 'dh' is wrapped by @staticmethod",
)
"""Of newer versions of pytest: Scrapy's tests take any warning for an error."""

NOTHING = ("absent", "")


def unpacked(source: Path, folder: Path) -> Path:
    """Unpack a source distribution."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return tree


def run(scrapy: Path, tests_of: Path, options: list[str]) -> dict[str, tuple[str, str]]:
    """Run tests on a copy of Scrapy; return outcome and first line of the error."""
    beside = scrapy.parent.parent
    report = beside / "report.xml"
    temporary = beside / "tmp"
    temporary.mkdir(exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(scrapy), "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"]
    command += ["-o", "junit_family=xunit1", "--timeout=120"]
    command += [f"-Wignore:{message}" for message in WARNINGS] + options
    with (beside / "pytest.log").open("a") as log:
        told: dict[str, Any] = {"stdout": log, "stderr": subprocess.STDOUT}
        subprocess.run(command, cwd=tests_of, env=environment, check=False, **told)
    return dict(map(outcome_of, ET.parse(report).iter("testcase")))  # noqa: S314 - ours


def outcome_of(case: ET.Element) -> tuple[str, tuple[str, str]]:
    """Return the name of a test for pytest, its outcome, and why."""
    # An inherited test has the file of the base class, so that is read from the class.
    words = (case.get("classname") or "").split(".")
    classes = [word for word in words if word[:1].isupper()]
    file = "/".join(words[: len(words) - len(classes)]) + ".py"
    name = "::".join((file, *classes, case.get("name") or ""))
    for child in case:
        if child.tag in ("failure", "error", "skipped"):
            return name, (child.tag, (child.get("message") or "").partition("\n")[0])
    return name, ("passed", "")


def differing(
    stock: dict[str, tuple[str, str]], ours: dict[str, tuple[str, str]]
) -> list[str]:
    """Return the tests with different outcomes."""
    return [
        test
        for test in sorted(stock.keys() | ours.keys())
        if stock.get(test, NOTHING)[0] != ours.get(test, NOTHING)[0]
    ]


def main() -> int:
    """Run both copies and print how they differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, help="scrapy-VERSION.tar.gz")
    parser.add_argument("--jobdir", action="store_true", help="a JOBDIR a crawler")
    parser.add_argument("--of", type=Path, help="the tests of another package")
    arguments, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="scrapys-own") as place:
        trees, outcomes = [], []
        for addon in (False, True):
            folder = Path(place, "addon" if addon else "stock")
            scrapy = unpacked(arguments.source, folder / "source")
            tree = unpacked(arguments.of, folder / "tests") if arguments.of else scrapy
            changes = [("settings/default_settings.py", ADDON)] if addon else []
            if addon and arguments.of:
                changes.append(("crawler.py", CHANGED.format(BESIDE)))
            if arguments.jobdir:
                changes.append(("crawler.py", CHANGED.format(JOBDIR)))
            for name, code in changes:
                with (scrapy / "scrapy" / name).open("a") as file:
                    file.write(code)
            trees.append((scrapy, tree))
            outcomes.append(run(scrapy, tree, ["tests", *options]))
            counts = Counter(outcome for outcome, _ in outcomes[-1].values())
            print(f"{'with' if addon else 'without'} the add-on: {dict(counts)}")
        stock, ours = outcomes
        # Some tests wait for a command for a while only, so run each again by itself.
        again = [test for test in differing(stock, ours) if test in ours]
        if again:
            for outcome, places in zip(outcomes, trees, strict=True):
                outcome.update(run(*places, [*again, "-p", "no:xdist"]))
    differ = differing(stock, ours)
    for test in differ:
        (before, why_before), (after, why) = (
            outcome.get(test, NOTHING) for outcome in outcomes
        )
        print(f"{test}: {before} -> {after}: {why or why_before}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
