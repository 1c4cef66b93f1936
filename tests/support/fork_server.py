"""Fork server: real processes that crawl, without the time that Scrapy's import takes.

A process that has imported Scrapy and bloomdupe, and nothing of a spider or reactor,
listens on a socket. Each connection has one task, a line of JSON, for which the process
forks. The child is in all that matters the process that ``scrapy crawl`` would be: it
reads the project's settings, imports its spiders, and may be killed. The process ends
when its standard input ends. The other side is ``forks.py``.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import os
import platform
import runpy
import select
import signal
import socket
import sys
import traceback
import warnings
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

OF_TESTS = ("recorder", "support.child", "support.placing", "table")
"""Modules of the tests that many crawls import. No spiders: they may read the
environment when they are imported."""


def preload() -> None:
    """Import the modules that every crawl imports, and no reactor.

    ``scrapy`` also asks for the machine and the installed packages; the answers stay.
    """
    for name in ("entry_points", "version"):
        setattr(metadata, name, cache(getattr(metadata, name)))
    platform.platform()
    inspect.getsource(preload)  # Scrapy reads callbacks: tokenize keeps its patterns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _import_all()


def _import_all() -> None:
    import pkgutil
    from importlib import import_module

    from scrapy.settings import Settings
    from scrapy.utils.misc import load_object, walk_modules
    from scrapy.utils.versions import get_versions

    import bloomdupe
    from bloomdupe.inside_scrapy.private_names import check_names

    settings = Settings()
    for name in settings:
        if name.endswith("_BASE"):
            parts = settings.getdict(name)
            for part in (*parts, *parts.values()):
                # HTTP/2, S3 and the like need more than Scrapy.
                with suppress(ImportError):
                    if str(part).startswith("scrapy."):
                        load_object(part)
    scrapys = ("cmdline", "commands", "logformatter", "squeues")
    for name in (*(f"scrapy.{name}" for name in scrapys), *OF_TESTS):
        walk_modules(name)
    for command in metadata.entry_points(group="scrapy.commands"):
        command.load()
    get_versions()
    for module in pkgutil.walk_packages(bloomdupe.__path__, "bloomdupe."):
        import_module(module.name)
    check_names(pipelines=True)  # the code that it reads stays
    assert "twisted.internet.reactor" not in sys.modules


def child(task: dict[str, Any]) -> int:
    """Be a ``scrapy`` command, or a script, in a folder; return the exit status."""
    os.chdir(task["folder"])
    os.environ.update(task.get("environment", {}))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    log = os.open(task["log"], flags, 0o600)
    out = os.open(task["output"], flags, 0o600) if "output" in task else log
    given = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((given, 0), (out, 1), (log, 2)):
        os.dup2(source, target)
    sys.path.insert(0, task["folder"])
    _prepare(task)
    sys.argv = task["command"]
    sys.orig_argv = [sys.executable, "-m", *task["command"]]
    try:
        if sys.argv[0] == "scrapy":
            import scrapy.cmdline

            scrapy.cmdline.execute(sys.argv)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:  # noqa: BLE001 - as the interpreter does at the end
        traceback.print_exc()
        return 1
    return 0


def _prepare(task: dict[str, Any]) -> None:
    """Call the functions that the task names, and put stop points in place."""
    from scrapy.utils.misc import load_object

    for name, arguments in task.get("before", ()):
        load_object(name)(*arguments)
    if "STOP" in os.environ:
        from support import placing

        placing.install()


def end(status: int) -> NoReturn:
    """End as the interpreter does, but leave the memory to the kernel."""
    try:
        gc.collect()  # a failure that no code has handled is logged then
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def answer(task: dict[str, Any], *sockets: socket.socket) -> list[int]:
    """Start a child, and return its number; or the status of one that has ended.

    A child has none of the server's sockets.
    """
    if "wait" in task:
        return [os.waitstatus_to_exitcode(os.waitpid(task["wait"], 0)[1])]
    pid = os.fork()
    if not pid:
        for inherited in sockets:
            inherited.close()
        end(child(task))
    return [pid]


def main() -> None:
    # Last, so that an installed bloomdupe is tested rather than the checkout's;
    # crawler is never installed.
    sys.path.append(str(Path(__file__).parents[2]))
    listening = socket.socket(fileno=int(sys.argv[1]))
    # Not before there is a task: most runs of a few tests have none.
    select.select([sys.stdin, listening], [], [])
    preload()
    gc.collect()
    gc.freeze()  # or each child copies all of it when it collects
    gc.get_freeze_count = lambda: 1  # it counts for as long as a tenth of a crawl
    while listening in select.select([sys.stdin, listening], [], [])[0]:
        connection, _ = listening.accept()
        with connection:
            with connection.makefile() as lines:
                task = json.loads(lines.readline())
            told = json.dumps(answer(task, connection, listening))
            connection.sendall(f"{told}\n".encode())


if __name__ == "__main__":
    main()
