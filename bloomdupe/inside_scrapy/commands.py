"""Commands of Scrapy: finds the running command, and ends a crawl before it begins.

``scrapy check`` and ``scrapy parse`` run a spider of the project, with a ``start`` of
their own; ``scrapy shell`` makes a crawler without crawling. No attribute of a crawler
distinguishes them from ``scrapy crawl`` for certain: a project can set all that they
set, too. But a command of Scrapy waits until its crawl is over, so it is among the
callers of all code of the crawl.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

from scrapy.utils.reactor import is_asyncio_reactor_installed

from bloomdupe.errors import BloomDupeError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
_COMMANDS = "scrapy.commands."


def running_command() -> str | None:
    """Return the name of the running command of Scrapy, such as ``crawl``.

    None if no command of Scrapy is running: the crawl was started by a script, or by a
    command of another package that starts its crawls itself.
    """
    frame = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_COMMANDS):
            return str(module.removeprefix(_COMMANDS))
        frame = frame.f_back
    return None


def watch_opening(
    crawler: Crawler,
    refuse: Callable[[BloomDupeError], None],
    error: BloomDupeError | None = None,
) -> None:
    """Call ``refuse`` if the crawl cannot be opened, and let it end with status 1.

    With an ``error`` it is refused before its engine is made. A command of Scrapy would
    show any exception with a traceback. Scrapy closes nothing then, because nothing was
    open: see :func:`~bloomdupe.inside_scrapy.engine.opening`. ``refuse`` may raise the
    error.
    """
    create: Any = crawler._create_engine

    def no_engine(error: BloomDupeError) -> _NoEngine:
        # For a command, a crawler without a spider is a crawler that did not start.
        crawler.spider = None
        refuse(error)
        return _NoEngine()

    def created() -> Any:
        if error is not None:
            return no_engine(error)
        engine = create()
        open_spider = engine.open_spider_async

        async def opened(**options: Any) -> None:
            try:
                await open_spider(**options)
            except BloomDupeError as error:
                if engine.spider is not None:  # it is of other code, and Scrapy closes
                    raise
                engine.start_async = no_engine(error).start_async

        engine.open_spider_async = opened
        return engine

    crawler._create_engine = created  # type: ignore[method-assign]


def check_reactor(settings: BaseSettings) -> None:
    """Raise :class:`~bloomdupe.errors.SettingError` unless asyncio's reactor runs."""
    name = settings["TWISTED_REACTOR"]
    installed = "twisted.internet.reactor" in sys.modules
    if not name and installed and is_asyncio_reactor_installed():
        name = ASYNCIO
    if name != ASYNCIO or not settings.getbool("TWISTED_REACTOR_ENABLED"):
        raise SettingError(
            f"TWISTED_REACTOR = {name!r}, TWISTED_REACTOR_ENABLED ="
            f" {settings['TWISTED_REACTOR_ENABLED']!r}: bloomdupe crawls on asyncio's"
            " reactor only; leave both settings out"
        )


def load_addons(crawler: Crawler) -> None:
    """Let the add-ons of a crawler change its settings, without a crawl."""
    crawler.addons.load_settings(crawler.settings)


class _NoEngine:
    """An engine that does nothing, whatever ``Crawler.crawl()`` calls."""

    running = False

    def __getattr__(self, name: str) -> Any:
        async def nothing(**_: object) -> None:
            """Do nothing."""

        return nothing
