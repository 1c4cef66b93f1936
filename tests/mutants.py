"""Changes a module in many ways, and prints each change that the tests do not notice.

    python tests/mutants.py bloomdupe/frontier/rank.py 60 tests/frontier/test_rank.py

Of all changes that cosmic-ray can make to the module, it tries so many, by chance; the
name of the module is the seed, so they are the same each time. They are made in a copy
of the repository. Each is tested in a process of its own, forked from a process that
has imported all packages that the tests need, but bloomdupe. A test that does not end,
or that needs far more time or memory, counts as a test that has failed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PATIENCE = 600
"""Seconds after which a process that tests a change is ended."""
TIMES = 3
"""Times the processor time of the unchanged tests that a change may take."""
MEMORY = 4 << 30
"""Bytes that a process may allocate."""
IMPORTED = (
    "bitarray", "hypothesis.stateful", "lmdb", "mmh3", "msgpack", "psutil", "pytest",
    "redis", "scrapy.crawler", "scrapy.linkextractors", "xdist.plugin",
)  # fmt: skip

EARLY = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Plugins of pytest are imported too early for their own asserts, which are few."""


def changes_of(source: str, seed: str) -> Iterator[str]:
    """Yield the text of a module with each change that runs, in an order by chance."""
    tree = get_ast(source)
    before = running(source)
    places = []
    for name in operator_names():
        if get_operator(name).arguments():
            continue
        operator = get_operator(name)()
        count = sum(
            1 for node in ast_nodes(tree) for _ in operator.mutation_positions(node)
        )
        places += [(operator, occurrence) for occurrence in range(count)]
    random.Random(seed).shuffle(places)
    for operator, occurrence in places:
        changed = mutate_code(source, operator, occurrence)
        if changed is not None and running(changed) not in (before, None):
            yield changed


def running(source: str) -> str | None:
    """Return the syntax tree of a text without annotations and the names for them.

    None if it is no Python: cosmic-ray takes the ``/`` in a signature for a division.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if hasattr(node, field):
                setattr(node, field, None)
        if isinstance(node, ast.If) and "'TYPE_CHECKING'" in ast.dump(node.test):
            node.test, node.body = ast.Constant(value=False), []
    return ast.dump(tree)


def tests_pass(copy: Path, tests: list[str], most: float) -> tuple[bool, float]:
    """Run the tests in a fork; whether all pass, and the processor time they took.

    It ends when it has taken ``most`` seconds of that.
    """
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(PATIENCE)
            resource.setrlimit(resource.RLIMIT_CPU, (int(most), int(most)))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            os.chdir(copy)
            os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
            sys.dont_write_bytecode = True
            sys.path[0] = str(copy)
            options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *EARLY]
            status = import_module("pytest").main([*options, *tests])
        finally:
            os._exit(status)
    _, status, used = os.wait4(child, 0)
    return status == 0, used.ru_utime + used.ru_stime


def main() -> int:
    """Try the changes; the exit status is 1 if any change is not noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("module", help="path of the module, from the repository's top")
    parser.add_argument("number", type=int, help="how many changes to try")
    parser.add_argument("tests", nargs="+", help="arguments of pytest")
    arguments = parser.parse_args()
    for name in IMPORTED:
        import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder, "copy")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".?*"))
        passed, seconds = tests_pass(copy, arguments.tests, PATIENCE)
        if not passed:
            sys.exit("the tests fail without any change")
        place = copy / arguments.module
        source = place.read_text(encoding="utf-8")
        tried = survivors = 0
        changes = changes_of(source, arguments.module)
        for changed in islice(changes, arguments.number):
            tried += 1
            place.write_text(changed, encoding="utf-8")
            if tests_pass(copy, arguments.tests, 10 + TIMES * seconds)[0]:
                survivors += 1
                lines = source.splitlines(), changed.splitlines()
                diff = difflib.unified_diff(*lines, n=1, lineterm="")
                print(*diff, "", sep="\n", flush=True)
    print(f"{tried} changes, {survivors} of them not noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
