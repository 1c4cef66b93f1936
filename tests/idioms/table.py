"""Idiom: a way in which people write spiders; the table of those that are judged.

A spider is entered by a decorator, in the module of ``everyday/`` that has it.
"""

from __future__ import annotations

import pkgutil
import re
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import known_site

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from support.site import Answer, Visit

    Class = TypeVar("Class", bound=type[Spider])


@dataclass(frozen=True, eq=False)
class Idiom:
    """A spider, the way it is run, and the exceptions for it."""

    spider: type[Spider]
    settings: dict[str, Any] = field(default_factory=dict)
    """Besides the usual ones, see ``crawls.py``."""
    arguments: tuple[str, ...] = ()
    """Of ``scrapy crawl NAME``."""
    script: str | None = None
    """What is run instead of ``scrapy crawl``: a program in ``everyday/``."""
    moments: tuple[str, ...] = ()
    """Points in the spider where it is stopped, too; see :func:`stops.moment`."""
    items: tuple[str, ...] | None = None
    """All pages, each of which has one item, where stock Scrapy cannot be asked."""
    repeats: int | None = 0
    """Requests that a stop may repeat besides those in flight or since the last
    checkpoint; None: any number."""
    asks: int = 0
    """Requests that a page may make that are not scheduled, until it is done: a stop
    repeats them with it."""
    waits: bool = False
    """Whether a callback waits for requests. A crawl that closes hands none out any
    more, so the callback never ends: as with Scrapy, it takes a second Ctrl-C."""
    raises: bool = False
    """Whether a traceback in the log is part of it."""
    pages: Callable[[Visit], str | Answer | None] = known_site.pages
    """The site."""

    @property
    def name(self) -> str:
        return self.spider.name

    @property
    def may_be_shared(self) -> bool:
        """Whether a crawl on Redis can have this idiom: scripts have a ``JOBDIR``."""
        return self.script is None and "DUPEFILTER_CLASS" not in self.settings

    @property
    def command(self) -> list[str]:
        if self.script is not None:
            return [str(HERE / "everyday" / self.script)]
        return ["scrapy", "crawl", self.name, *self.arguments]


HERE = Path(__file__).parent
IDIOMS: dict[str, Idiom] = {}
"""By name."""


COMPONENTS = ("downloader_middlewares", "item_pipelines", "spider_middlewares")


def idiom(**options: Any) -> Callable[[Class], Class]:
    """Enter a spider in the table; the options are the fields of :class:`Idiom`.

    It is named as its class is, in lower case. Components of its own are an option with
    the name of their setting: classes, and their orders.
    """

    def enter(spider: Class) -> Class:
        spider.name = re.sub(r"(?<=.)(?=[A-Z])", "_", spider.__name__).lower()
        assert spider.name not in IDIOMS, spider.name
        assert spider.__doc__, spider.name
        settings = {**options.pop("settings", {})}
        for kind in options.keys() & COMPONENTS:
            orders = options.pop(kind).items()
            settings[kind.upper()] = {
                f"{one.__module__}.{one.__name__}": order for one, order in orders
            }
        IDIOMS[spider.name] = Idiom(spider, settings=settings, **options)
        return spider

    return enter


def load() -> dict[str, Idiom]:
    """Import all of them."""
    import everyday

    for module in pkgutil.iter_modules(everyday.__path__, "everyday."):
        if not module.name.endswith("_script"):
            import_module(module.name)
    return IDIOMS
