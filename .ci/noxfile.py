"""The job list: CI runs it, and a person runs a job by its name.

    pipx run nox -f .ci/noxfile.py --list
    pipx run nox -f .ci/noxfile.py -s "tests(3.12-scrapy2.16)"

Each session of ``tests`` installs a combination of versions that bloomdupe claims, and
runs the tests that pytest runs by default; arguments after ``--`` replace them. The
versions of ``lowest`` are the lowest that ``pyproject.toml`` allows.
"""

import re
from pathlib import Path

import nox

ROOT = Path(__file__).parents[1]
nox.options.sessions = ["tests"]

SCRAPY = {
    "3.12-scrapy2.16": ("3.12", "2.16"),
    "3.13-scrapy2.17": ("3.13", "2.17"),
    "3.13-scrapy2.18": ("3.13", "2.18"),
    "3.10-scrapy2.19": ("3.10", "2.19"),
    "3.13-scrapy2.19": ("3.13", "2.19"),
}
MISSING = """
from bloomdupe.inside_scrapy.private_names import NEEDED, OF_PIPELINES, missing
gone = missing((*NEEDED, *OF_PIPELINES))
print(*gone, f"{len(gone)} private names are missing", sep="\\n")
raise SystemExit(bool(gone))
"""
QUICK = ("tests/store", "tests/frontier", "tests/filter", "tests/links")


@nox.session(python=False)
@nox.parametrize("name", [nox.param(name, id=name) for name in SCRAPY])
def tests(session: nox.Session, name: str) -> None:
    """Run the tests on a combination of versions."""
    python, scrapy = SCRAPY[name]
    bin_ = _venv(session, name, python)
    wanted = (f"scrapy=={scrapy}.*", ".[test]")
    session.run(f"{bin_}/pip", "install", "-q", *wanted)
    session.run(f"{bin_}/pytest", "-q", *session.posargs)


@nox.session(python=False)
def lowest(session: nox.Session) -> None:
    """Install the lowest versions together, import every module, run quick tests."""
    bin_ = _venv(session, "lowest", "3.10")
    session.run(f"{bin_}/pip", "install", "-q", ".[redis,metrics]", *_lowest())
    session.run(
        f"{bin_}/pip", "install", "-q", "pytest", "hypothesis", "redis", "psutil"
    )
    session.run(
        f"{bin_}/python",
        "-c",
        "from tests.support.fork_server import preload; preload()",
        env={"PYTHONPATH": "tests:tests/idioms"},
    )
    session.run(f"{bin_}/pytest", "-q", *(session.posargs or ["tests/store"]))


@nox.session(python=False)
def elsewhere(session: nox.Session) -> None:
    """Run quick tests with everything hidden that only Linux has."""
    bin_ = _venv(session, "elsewhere", "3.12")
    session.run(f"{bin_}/pip", "install", "-q", ".[test]")
    hidden = {"PYTHONPATH": str(ROOT / "tests/support/elsewhere")}
    session.run(f"{bin_}/pytest", "-q", *(session.posargs or QUICK), env=hidden)


@nox.session(python=False)
def upstream(session: nox.Session) -> None:
    """Name the private names of Scrapy that have moved: ``-- 2.20rc1``, or the newest.

    Then run the tests that know them.
    """
    bin_ = _venv(session, "upstream", "3.13")
    version = f"=={session.posargs[0]}" if session.posargs else ""
    session.run(f"{bin_}/pip", "install", "-q", ".[test]")
    session.run(f"{bin_}/pip", "install", "-q", "-U", "--pre", f"scrapy{version}")
    session.run(f"{bin_}/python", "-c", MISSING)
    session.run(f"{bin_}/pytest", "-q", "tests/crawl/test_dupefilter.py")


@nox.session(python=False)
def mutants(session: nox.Session) -> None:
    """Print the changes of a module that tests miss: ``-- MODULE TESTS``."""
    bin_ = _venv(session, "mutants", "3.11")
    session.run(f"{bin_}/pip", "install", "-q", "cosmic-ray", "-e", ".[test]")
    module, *tests = session.posargs
    place = Path(session.cache_dir)
    config, found = place / "mutants.toml", place / "mutants.sqlite"
    config.write_text(
        f'[cosmic-ray]\nmodule-path = "{module}"\ntimeout = 600.0\n'
        "excluded-modules = []\n"
        f'test-command = "{bin_}/pytest -x -q -n 0 {" ".join(tests)}"\n'
        'distributor.name = "local"\n',
        encoding="utf-8",
    )
    session.run(f"{bin_}/cosmic-ray", "init", str(config), str(found))
    session.run(f"{bin_}/cosmic-ray", "exec", str(config), str(found))
    session.run(f"{bin_}/cr-report", "--surviving-only", "--show-diff", str(found))


def _venv(session: nox.Session, name: str, python: str) -> Path:
    """Make a virtual environment anew, and return the folder of its programs."""
    session.chdir(ROOT)
    # Not in ``create_tmp()``, which becomes the TMPDIR of the tests, too: the names of
    # their sockets would be too long.
    place = Path(session.cache_dir) / name
    session.run(f"python{python}", "-m", "venv", "--clear", str(place))
    return place / "bin"


def _lowest() -> list[str]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (required,) = re.findall(r"^dependencies = \[(.*?)^\]", text, re.M | re.S)
    bounds = re.findall(r'"([\w-]+)>=([\d.]+)(?:,<\d+)?"', required)
    return [f"{name}=={version}" for name, version in bounds]
