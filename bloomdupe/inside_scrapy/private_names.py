"""The private names of Scrapy that bloomdupe uses, and whether this Scrapy has them.

All of them are here, undocumented names included, and nowhere else. They are looked for
before a crawl opens or creates anything, and without one of them no crawl begins.
Undocumented functions and classes are imported from here, so that every module of
bloomdupe can be imported, whichever of them this Scrapy lacks: an empty class is in the
place of one that is missing.
Tested with Scrapy 2.16 to 2.19.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from scrapy import __version__

from bloomdupe.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def _names(table: dict[str, str]) -> list[str]:
    return [f"{owner}.{one}" for owner, some in table.items() for one in some.split()]


NEEDED = _names({
    "scrapy.crawler.Crawler": "_create_engine addons extensions",
    "scrapy.core.engine.ExecutionEngine": (
        "_handle_downloader_output _process_start_next _slot _start "
        "close_spider_async crawl download_async downloader needs_backout "
        "open_spider_async running scraper signals spider start_async"
    ),
    "scrapy.core.engine._Slot": "closing nextcall",
    "scrapy.core.spidermw.SpiderMiddlewareManager": "process_start",
    "scrapy.utils.reactor.CallLaterOnce": "schedule wait",
    "scrapy.core.downloader.Downloader": (
        "domain_concurrency get_slot_key per_slot_settings slots"
    ),
    "scrapy.core.downloader.Slot": "active concurrency delay lastseen transferring",
    "scrapy.core.scraper.Scraper": (
        "call_spider_async concurrent_items handle_spider_error "
        "handle_spider_output_async itemproc slot spidermw start_itemproc_async"
    ),
    "scrapy.core.scraper.Slot": "closing is_idle",
    "scrapy.utils.asyncgen": "as_async_generator",
    "scrapy.utils.defer": "aiter_errback",
    "scrapy.middleware.MiddlewareManager": "middlewares",
    "scrapy.signalmanager.SignalManager": "sender",
    "scrapy.signals": "scheduler_empty",
    "scrapy.extensions.feedexport.FeedExporter": "_get_file _start_new_batch feeds",
    "scrapy.extensions.feedexport.FeedSlot": (
        "exporter exporters feed_options filter finish_exporting format itemcount "
        "start_exporting storage uri uri_template"
    ),
    "scrapy.extensions.feedexport.FileFeedStorage": "path",
    "scrapy.utils.conf": (
        "feed_complete_default_values_from_settings feed_process_params_from_cli"
    ),
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": "jars",
    "scrapy.http.cookies.CookieJar": "jar",
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": (
        "process_request request_scheduled should_follow"
    ),
    "scrapy.http": "response",
    "scrapy.http.response": "text",
    "scrapy.http.Request": (
        "_body _cb_kwargs _cookies _encoding _flags _headers _meta _url"
    ),
    "scrapy.linkextractors": "lxmlhtml",
    "scrapy.utils.response": "get_base_url",
    "scrapy.extensions.spiderstate.SpiderState": "jobdir spider_closed spider_opened",
    "scrapy.utils.spider": "DefaultSpider",
    "scrapy.addons.AddonManager": "load_settings",
})  # fmt: skip

OF_PIPELINES = _names({
    "scrapy.pipelines.files.FilesPipeline": "store",
    "scrapy.pipelines.files": "FSFilesStore",
    "scrapy.pipelines.files.FSFilesStore": "basedir persist_file",
})  # fmt: skip
"""The same for crawls with item pipelines; others do not import these modules."""

WITH_FALLBACK = _names({
    "scrapy.core.downloader.Downloader": "ip_concurrency middleware",
    "scrapy.core.downloader.Slot": "jitter",
    "scrapy.core.downloader": "monotonic",
    "scrapy.extensions.feedexport": "apply_uri_params",
    "scrapy.middleware.MiddlewareManager": "methods",
})  # fmt: skip
"""Names that only some versions have, where all is well without them."""


def found(path: str) -> Any:
    """Return the module, class or function with this name; None if there is none."""
    place, _, name = path.rpartition(".")
    if not place:
        return import_module(path)
    owner = found(place)
    value = getattr(owner, name, None)
    if value is None and isinstance(owner, ModuleType):
        with suppress(ImportError):
            return import_module(path)
    return value


def _has(path: str) -> bool:
    """Whether this Scrapy has a name; a name in a class may be that of its objects."""
    place, _, name = path.rpartition(".")
    owner = found(place)
    if isinstance(owner, type):
        modules = (base.__module__ for base in owner.__mro__)
        return hasattr(owner, name) or any(
            name in _in_constructors(one) for one in modules
        )
    return found(path) is not None


@cache
def _in_constructors(module: str) -> frozenset[str]:
    """Return the names in the code of the constructors in a module of Scrapy.

    Tools that watch a program replace constructors, so the code of the module is read,
    which is there without its text, too.
    """
    if not module.startswith("scrapy."):
        return frozenset()
    spec: Any = import_module(module).__spec__
    return frozenset(_in_init(spec.loader.get_code(module)))


def _in_init(code: CodeType) -> Iterator[str]:
    for inner in (one for one in code.co_consts if isinstance(one, CodeType)):
        yield from inner.co_names if inner.co_name == "__init__" else _in_init(inner)


def missing(names: Iterable[str]) -> list[str]:
    """Return those of the names that this Scrapy does not have."""
    return [name for name in names if not _has(name)]


def check_names(*, pipelines: bool = False) -> None:
    """Raise :class:`~bloomdupe.errors.EngineError` if a name is missing.

    ``pipelines`` says that the crawl has item pipelines.
    """
    for name in missing((*NEEDED, *(OF_PIPELINES if pipelines else ()))):
        raise EngineError(
            f"Scrapy {__version__} has no {name}, which bloomdupe needs: install"
            f" scrapy<{__version__}, or a newer bloomdupe"
        )


_PATHS = {path.rpartition(".")[2]: path for path in (*NEEDED, *OF_PIPELINES)}


def __getattr__(name: str) -> Any:
    if name not in _PATHS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found(_PATHS[name]) or type(name, (), {})
