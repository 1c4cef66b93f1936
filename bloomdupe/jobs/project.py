"""Project: the spider of a job and its settings, without a crawl."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.project import get_project_settings
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.engines.crawl_job import queue_order
from bloomdupe.errors import SettingError, StoreMismatchError
from bloomdupe.foreign import check_packed
from bloomdupe.inside_scrapy.commands import load_addons
from bloomdupe.links.fingerprint import fingerprint_function, is_plain
from bloomdupe.requests.callbacks import may_be_callback
from bloomdupe.requests.serializer import Serializer
from bloomdupe.settings import JobSettings, check_exact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import Settings


FINGERPRINTER = "REQUEST_FINGERPRINTER_CLASS"


class Project:
    """A spider, and the settings with which it crawls, add-ons included.

    ``settings`` are those of the project. None means the project of the current folder,
    or Scrapy's defaults if there is no project. A spider that the project does not have
    counts as a spider without settings and callbacks of its own.

    Raises :class:`~bloomdupe.errors.SettingError` if the spiders or add-ons of the
    project cannot be loaded, and so does the first use of a fingerprinter.
    """

    def __init__(self, settings: Settings | None, spider: str) -> None:
        settings = get_project_settings() if settings is None else settings.copy()
        # The job is opened by its path; the add-on has nothing to look for.
        settings.set("JOBDIR", None, "cmdline")
        self.spider = spider
        with loading(settings, "SPIDER_MODULES"):
            loader = load_object(settings["SPIDER_LOADER_CLASS"]).from_settings(
                settings
            )
        self.spiders: list[str] = sorted(loader.list())
        """The spiders of the project; empty: this is no project."""
        self.known = spider in self.spiders
        self._class: type[Spider] = type("UnknownSpider", (Spider,), {"name": spider})
        if self.known:
            self._class = loader.load(spider)
        self._crawler = Crawler(self._class, settings)
        with loading(settings, "ADDONS"):
            load_addons(self._crawler)
        self.settings = self._crawler.settings
        self.exact = JobSettings.read(self.settings).exact
        """The URLs whose fingerprints are exact."""
        self.order = queue_order(self.settings, durable=True)

    @cached_property
    def fingerprinter(self) -> str:
        """Name of the class that makes fingerprints."""
        with loading(self.settings, FINGERPRINTER):
            return global_object_name(load_object(self.settings[FINGERPRINTER]))

    @cached_property
    def _fingerprinter(self) -> Any:
        return build_from_crawler(load_object(self.fingerprinter), self._crawler)

    @cached_property
    def _fingerprint(self) -> Callable[[Request], bytes]:
        return fingerprint_function(self._fingerprinter)

    @classmethod
    def of_job(
        cls,
        settings: Settings | None,
        spider: str | None,
        identity: dict[str, Any] | None,
        job: str,
    ) -> Project:
        """Return the project of a job; of ``spider`` if it is to begin (no identity).

        Messages name the ``job``. Raises :class:`SettingError` if it is another
        spider's, or if there is no job, and no spider is given; and
        :class:`StoreMismatchError` if this project would make different fingerprints.
        """
        if identity is None:
            if spider is None:
                raise SettingError(
                    f"{job}: there is no job yet; --spider NAME names the spider for it"
                )
            project = cls(settings, spider)
            if project.spiders and not project.known:
                raise SettingError(
                    f"--spider {spider!r}: the project has no such spider; it has"
                    f" {', '.join(project.spiders)}"
                )
            return project
        if spider not in (None, identity.get("spider")):
            raise SettingError(
                f"--spider {spider!r}: the job {job} is that of spider"
                f" {identity.get('spider')!r}"
            )
        if not {"spider", "fingerprinter"} <= identity.keys():
            raise StoreMismatchError(
                "this is a store, but not that of a crawl: it does not say which"
                " spider and which fingerprinter it was made for"
            )
        project = cls(settings, identity["spider"])
        try:
            project.exact = check_exact(identity.get("exact", False), "exact")
        except SettingError as error:
            raise StoreMismatchError(f"the job is damaged: {error}") from error
        if project.fingerprinter != identity["fingerprinter"]:
            raise StoreMismatchError(
                f"the job was made with {FINGERPRINTER} ="
                f" {identity['fingerprinter']!r}, here it is"
                f" {project.fingerprinter!r}, which knows no URL of it: call this in"
                " the folder of its project, with the same settings"
            )
        return project

    def key_of(self, request: Request) -> tuple[bytes, bool]:
        """Return a request's fingerprint, and whether it is exact."""
        return self._fingerprint(request), self.exact.match(request.url)

    @cached_property
    def crawler(self) -> Crawler:
        """A crawler with a spider that has its methods, and was not initialised.

        Arguments for the spider may be missing.
        """
        self._crawler.spider = object.__new__(self._class)
        return self._crawler

    def crawler_for(self, feeds: dict[str, dict[str, Any]]) -> Crawler:
        """Return a crawler with other ``FEEDS``, and a spider that has only its name.

        No code of the spider's own runs. Nothing can be crawled with it.
        """
        crawler = self._crawler
        crawler.settings.set("FEEDS", feeds, "cmdline")
        crawler.settings.set("FEED_URI", None, "cmdline")
        crawler.spider = Spider.from_crawler(crawler, self.spider)
        crawler.stats = StatsCollector(crawler)
        return crawler

    @cached_property
    def serializer(self) -> Serializer:
        """Serializer of stored requests, as far as their fingerprints need it.

        Fingerprints of plain fingerprinters do not depend on callbacks; others may.
        """
        is_enough = is_plain(self._fingerprinter)
        return Serializer(None) if is_enough else Serializer(self.crawler.spider)

    def page_of(self, payload: bytes) -> bytes | None:
        """Return the fingerprint of a stored request; None: it cannot be read."""
        try:
            return self._fingerprint(self.request_of(payload))
        except ValueError:
            return None

    def request_of(self, payload: bytes) -> Request:
        """Return a stored request, for its fingerprint and its place in the queue.

        All other data may be missing. Raises :class:`ValueError`.
        """
        check_packed(payload)
        return self.serializer.load(payload)

    def check_method(self, use: str, name: str) -> None:
        """Refuse a method that cannot be a callback of the spider, if it is known.

        ``use`` names the option or the field.
        """
        if self.known and not may_be_callback(self._class, name):
            raise SettingError(
                f"{use} {name!r}: spider {self.spider!r} has no such callback"
            )


@contextmanager
def loading(settings: BaseSettings, name: str) -> Iterator[None]:
    """Name the setting in the error if its objects cannot be loaded here."""
    try:
        yield
    except (ImportError, SyntaxError, NameError) as error:
        value = settings[name]
        shown = dict(value) if isinstance(value, BaseSettings) else value
        raise SettingError(
            f"{name} = {shown!r} cannot be loaded: {type(error).__name__}: {error};"
            " call this in the folder of the project, and install what it imports"
        ) from error
