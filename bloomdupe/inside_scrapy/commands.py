"""Scrapy's commands: which one runs a crawl, and how a crawl ends before it begins.

``scrapy check`` and ``scrapy parse`` run a spider of the project, with a ``start`` of
their own; ``scrapy shell`` makes a crawler without crawling. Nothing that a crawler
shows tells them from ``scrapy crawl`` for certain: what they set, a project can set,
too. But a command of Scrapy waits until its crawl is over, so it is among the callers
of everything that happens in it. Tested with Scrapy 2.13 to 2.19.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

__all__ = ["cancel_crawl", "running_command"]

_COMMANDS = "scrapy.commands."


def running_command() -> str | None:
    """Return the name of the command of Scrapy that is running this, such as ``crawl``.

    None if it is none of Scrapy's own: a script, or a command of somebody else that
    starts its crawls itself.
    """
    frame = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_COMMANDS):
            return str(module.removeprefix(_COMMANDS))
        frame = frame.f_back
    return None


def cancel_crawl(crawler: Crawler, say_why: Callable[[], None]) -> None:
    """Let a crawl be over before its engine is made, with exit status 1.

    For crawls that a command of Scrapy has started: it would show any exception with
    a traceback, whatever its message. ``say_why`` is called last.
    """

    def no_engine() -> _NoEngine:
        say_why()
        # The command takes a crawler without a spider for one that did not start.
        crawler.spider = None
        return _NoEngine()

    crawler._create_engine = no_engine  # type: ignore[method-assign, assignment]


class _NoEngine:
    """What ``Crawler.crawl()`` uses of an engine, without anything behind it."""

    running = False

    def open_spider(self, *_: Any) -> None:  # noqa: ANN401 - before Scrapy 2.14
        """Open nothing."""

    def start(self) -> None:
        """Start nothing."""

    async def open_spider_async(self) -> None:
        """Open nothing."""

    async def start_async(self) -> None:
        """Start nothing."""
