"""Fork server: real processes that crawl, without the time that Scrapy's import takes.

A process that has imported Scrapy and bloomdupe, and nothing of a spider or reactor,
waits for tasks, a line of JSON each, and forks for every one. The child is in all that
matters the process that ``scrapy crawl`` would be: it reads the project's settings,
imports its spiders, and may be killed. The other side is ``forks.py``.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import sys
import traceback
import warnings
from typing import Any, NoReturn


def preload() -> None:
    """Import what every crawl imports, and no reactor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _import_all()


def _import_all() -> None:
    import pkgutil
    from importlib import import_module
    from importlib.metadata import entry_points

    from scrapy.settings import Settings
    from scrapy.utils.misc import load_object, walk_modules

    import bloomdupe

    settings = Settings()
    for name in settings:
        if name.endswith("_BASE"):
            for part in settings.getdict(name):
                _try(load_object, part)
            for part in settings.getdict(name).values():
                if isinstance(part, str):
                    _try(load_object, part)
    for name in ("scrapy.commands", "scrapy.logformatter", "scrapy.squeues"):
        walk_modules(name)
    for command in entry_points(group="scrapy.commands"):
        command.load()
    for module in pkgutil.walk_packages(bloomdupe.__path__, "bloomdupe."):
        import_module(module.name)
    assert "twisted.internet.reactor" not in sys.modules


def _try(load: Any, name: object) -> None:
    if not isinstance(name, str) or not name.startswith("scrapy."):
        return
    try:
        load(name)
    except ImportError:  # of HTTP/2, S3 and the like, which need more than Scrapy
        return


def child(task: dict[str, Any]) -> int:
    """Be a ``scrapy`` command, or a script, in a folder; return the exit status."""
    os.chdir(task["folder"])
    os.environ.update(task.get("environment", {}))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    log = os.open(task["log"], flags, 0o600)
    out = os.open(task["output"], flags, 0o600) if "output" in task else log
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (log, 2)):
        os.dup2(source, target)
    sys.path.insert(0, task["folder"])
    sys.argv = task["command"]
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


def end(status: int) -> NoReturn:
    """End as the interpreter does, but leave the memory to the kernel."""
    try:
        gc.collect()  # a failure that nobody has handled is logged then
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def answer(task: dict[str, Any]) -> int:
    """Start a child, and return its number; or return the status of one that ended."""
    if "wait" in task:
        return os.waitstatus_to_exitcode(os.waitpid(task["wait"], 0)[1])
    pid = os.fork()
    if not pid:
        end(child(task))
    return pid


def main() -> None:
    preload()
    gc.collect()
    gc.freeze()  # or each child copies all of it when it collects
    for line in sys.stdin:
        print(answer(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
