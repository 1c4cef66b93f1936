"""Commands of Scrapy: finds the running command, and ends a crawl before it begins.

``scrapy check`` and ``scrapy parse`` run a spider of the project, with a ``start`` of
their own; ``scrapy shell`` makes a crawler without crawling. No attribute of a crawler
tells them from ``scrapy crawl`` for certain: a project can set all that they set, too.
But a command of Scrapy waits until its crawl is over, so it is among the callers of all
code of the crawl. Tested with Scrapy 2.16 to 2.19.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed

from bloomdupe.errors import EngineError, SettingError
from bloomdupe.inside_scrapy.engine import check_engine

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


def cancel_crawl(crawler: Crawler, say_why: Callable[[], None]) -> None:
    """End a crawl before its engine is made, with exit status 1.

    Use it for crawls that a command of Scrapy has started: the command would show any
    exception with a traceback. ``say_why`` is called last.
    """

    def no_engine() -> _NoEngine:
        say_why()
        # For the command, a crawler without a spider is a crawler that did not start.
        crawler.spider = None
        return _NoEngine()

    crawler._create_engine = no_engine  # type: ignore[method-assign, assignment]


def check_reactor(settings: BaseSettings) -> None:
    """Raise :class:`~bloomdupe.errors.SettingError` unless asyncio's reactor runs."""
    name = settings["TWISTED_REACTOR"]
    if not name and is_reactor_installed() and is_asyncio_reactor_installed():
        name = ASYNCIO
    if name != ASYNCIO or not settings.getbool("TWISTED_REACTOR_ENABLED"):
        raise SettingError(
            f"TWISTED_REACTOR = {name!r}, TWISTED_REACTOR_ENABLED ="
            f" {settings['TWISTED_REACTOR_ENABLED']!r}: bloomdupe crawls on asyncio's"
            " reactor only; leave both settings out"
        )


def check_when_made(crawler: Crawler, refuse: Callable[[EngineError], None]) -> None:
    """Check the engine as soon as it is made, before it opens anything."""
    create: Any = crawler._create_engine

    def checked() -> Any:  # noqa: ANN401 - an engine
        engine = create()
        if isinstance(engine, _NoEngine):
            return engine
        try:
            check_engine(engine)
        except EngineError as error:
            engine.downloader.close()
            refuse(error)
            return crawler._create_engine()  # the one that does nothing
        return engine

    crawler._create_engine = checked  # type: ignore[method-assign]


class _NoEngine:
    """An engine that does nothing, with the methods that ``Crawler.crawl()`` calls."""

    running = False

    async def open_spider_async(self) -> None:
        """Open nothing."""

    async def start_async(self) -> None:
        """Start nothing."""
