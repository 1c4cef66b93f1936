"""The folder of a job (JOBDIR), and the settings derived from it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError
from scrapy.settings import SETTINGS_PRIORITIES

from crawler.hosts import folder_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import BaseSettings

__all__ = [
    "SAMPLE_JOB",
    "command_line",
    "item_files",
    "job_folder",
    "job_name",
    "set_job_settings",
]

SAMPLE_JOB = "sample"
"""Name of the job that crawls the sample site."""


def job_name(hosts: Iterable[str]) -> str:
    """Name the job that starts at these hosts; other hosts give another name.

    Raises :exc:`scrapy.exceptions.UsageError` if the name is too long for a folder.
    """
    name = "+".join(sorted({folder_name(host) for host in hosts}))
    if len(name) > 200:  # file systems end at 255 bytes
        raise UsageError(
            "-a url names too many hosts to name the job's folder after them: choose "
            "one with -s JOBDIR=crawls/NAME",
            print_help=False,
        )
    # A host may be called "sample", too; no folder_name() begins with a tilde.
    return f"~{SAMPLE_JOB}" if name == SAMPLE_JOB else name


def set_job_settings(settings: BaseSettings, name: str) -> None:
    """Set JOBDIR to ``crawls/<name>`` and FEEDS to a file in it.

    Settings of the user stay, even an empty JOBDIR (no job, nothing is kept). Raises
    :exc:`scrapy.exceptions.UsageError` if JOBDIR is not a folder. Writes nothing.
    """
    if not _is_set(settings, "JOBDIR"):
        settings.set("JOBDIR", f"crawls/{name}", priority="spider")
    folder = job_folder(settings)
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"JOBDIR {folder} is not a folder: move that file away, or choose another "
            "place with -s JOBDIR=FOLDER",
            print_help=False,
        )
    if not _is_set(settings, "FEEDS") and not settings["FEED_URI"]:
        # Absolute, because "a:b/items.jsonl" would be read as a URL; and Scrapy puts
        # %(name)s and the like into it.
        path = str((folder / "items.jsonl").absolute()).replace("%", "%%")
        feed = {"format": "jsonlines", "encoding": "utf-8", "overwrite": False}
        settings.set("FEEDS", {path: feed}, priority="spider")


def job_folder(settings: BaseSettings) -> Path | None:
    """Return JOBDIR, or None without one."""
    return Path(settings["JOBDIR"]) if settings["JOBDIR"] else None


def item_files(settings: BaseSettings) -> str:
    """Return the destinations of the items, for the log."""
    here = f"{Path.cwd()}/"
    files = [
        str(uri).replace("%%", "%").removeprefix(here)
        for uri in settings.getdict("FEEDS")
    ]
    if settings["FEED_URI"]:
        files.append(str(settings["FEED_URI"]))
    return ", ".join(files) or "no file (FEEDS is empty)"


def command_line() -> str | None:
    """Return the running command, or None if it is not a ``scrapy`` command.

    It is read from ``sys.orig_argv``, because Scrapy removes the word ``crawl`` from
    ``sys.argv``.
    """
    arguments = sys.orig_argv[1:]
    if arguments[:2] == ["-m", "scrapy"]:
        return shlex.join(["scrapy", *arguments[2:]])
    if arguments and Path(arguments[0]).name == "scrapy":
        return shlex.join(["scrapy", *arguments[1:]])
    return None


def _is_set(settings: BaseSettings, name: str) -> bool:
    return (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["default"]
