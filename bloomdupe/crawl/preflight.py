"""Preflight: which job a crawl continues, if any, and how it is refused.

Some commands of Scrapy only try something, such as ``scrapy check``, ``fetch``,
``shell`` and ``parse``. They, and every run of Scrapy's ``DefaultSpider``, leave the
job in ``JOBDIR`` alone, even if it belongs to the spider that they run. A crawl that is
not possible is refused in a line: for its settings before Scrapy makes its extensions,
and for its job when the scheduler opens it, which is before anything else is open.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from scrapy.settings import get_settings_priority
from scrapy.utils.project import get_project_settings

from bloomdupe.errors import BloomDupeError, SettingError
from bloomdupe.inside_scrapy.commands import (
    check_reactor,
    running_command,
    watch_opening,
)
from bloomdupe.inside_scrapy.private_names import DefaultSpider, check_names
from bloomdupe.printable import logger_of
from bloomdupe.settings import JobSettings, has_job, unknown

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logger_of(__name__)

OF_CRAWLS = {
    "BLOOMDUPE_STAY": False,
    "BLOOMDUPE_REVISIT": [],
    "BLOOMDUPE_METRICS": None,
}
"""Settings that are off for commands that only look at something."""

CRAWLING = (None, "crawl", "runspider")
"""Commands of Scrapy that crawl; None is a script, or a command of a project."""


def find_job(crawler: Crawler, settings: BaseSettings) -> None:
    """Set JOBDIR to the job of this crawl, or to None if it has no job.

    Refuses the crawl for an invalid setting.
    """
    command = running_command()
    is_default = issubclass(crawler.spidercls, DefaultSpider)
    if command not in CRAWLING or is_default:
        for name, off in OF_CRAWLS.items():
            settings.set(name, off, "cmdline")
        if has_job(settings):
            _leave_alone(settings, command)
        return
    try:
        check_names()
        # Some spiders get their names when they are made.
        spider: object = crawler.spider or crawler.spidercls
        for name in PLACES:
            if place := settings[name]:
                found = expanded(name, place, getattr(spider, "name", None))
                settings.set(name, found, settings.getpriority(name) or 0)
        check_reactor(settings)
        JobSettings.read(settings)
        for name, meant in unknown(settings).items():
            logger.warning(
                "There is no setting %(name)s, so it has no effect%(meant)s",
                {
                    "name": name,
                    "meant": f"; did you mean {meant}?" if meant else "",
                },
            )
    except BloomDupeError as error:
        # It is for the script that runs the crawl, or Scrapy's engine is unknown.
        if running_command() is None or not hasattr(crawler, "_create_engine"):
            # Without this, a crawler that has its spider counts as one that started,
            # before Scrapy 2.19.
            crawler.spider = None
            raise
        with suppress(TypeError):  # they are final
            settings.set("JOBDIR", None, "cmdline")
            settings.set("FEEDS", {}, "cmdline")
        watch_opening(crawler, _refuse, error)
    else:
        watch_opening(crawler, _refuse)


def expanded(setting: str, place: object, spider: str | None) -> object:
    """Return the place of a job with the spider's name in the place of ``%(spider)s``.

    Characters that it should not have become escapes as in URLs, so every name has a
    place of its own. Raises :class:`SettingError` for any other ``%(``. The message
    does not repeat the place: it may hold a password.
    """
    text = str(place)
    if "%(" not in text:
        return place
    if spider is None:
        raise SettingError(
            f"{setting}: the spider's class has no name to put in the place of"
            " %(spider)s; give it one, or write the name out"
        )
    name = quote(spider, safe=PLACES[setting])
    if not name.strip("."):
        name = name.replace(".", "%2E")
    text = text.replace("%(spider)s", name)
    if "%(" in text:
        raise SettingError(f"{setting}: only %(spider)s is replaced")
    return text


PLACES = {"JOBDIR": " +,=@~", "BLOOMDUPE_REDIS_URL": ""}
"""Settings with the place of the job, and the characters of a name that it may have."""


def _leave_alone(settings: BaseSettings, command: str | None) -> None:
    """Keep the job untouched: neither its store nor its feeds are read or written."""
    logger.info(
        "%(who)s leaves the job in %(place)s alone: everything stays in memory",
        {
            "who": f"scrapy {command}" if command else "Scrapy's default spider",
            "place": "JOBDIR" if settings["JOBDIR"] else "BLOOMDUPE_REDIS_URL",
        },
    )
    settings.set("JOBDIR", None, "cmdline")
    settings.set("BLOOMDUPE_REDIS_URL", None, "cmdline")
    feeds = {}
    if (settings.getpriority("FEEDS") or 0) >= get_settings_priority("cmdline"):
        # `scrapy parse -o FILE`, which adds the file to those of the project.
        feeds = settings.getdict("FEEDS")
        for uri in get_project_settings().getdict("FEEDS"):
            feeds.pop(uri, None)
    settings.set("FEEDS", feeds, "cmdline")


def _refuse(error: BloomDupeError) -> None:
    """Give the reason in a line; a script has the error, too, if it looks at it."""
    logger.critical("The crawl does not begin: %(error)s", {"error": error})
    if running_command() is None:
        raise error
