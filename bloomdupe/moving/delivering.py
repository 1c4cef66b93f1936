"""Delivering: feeds get the items that a job keeps for them, before its crawl ends."""

from __future__ import annotations

import asyncio
import re
import shlex
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.exceptions import NotConfigured, UsageError
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.project import get_project_settings
from scrapy.utils.reactor import install_reactor
from twisted.python.failure import Failure

from bloomdupe.errors import FeedError, SettingError
from bloomdupe.feeds import delivery
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.feed import waits
from bloomdupe.feeds.feed_format import PARAMETER, PARTS, local_path, without_secret
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.inside_scrapy.commands import ASYNCIO
from bloomdupe.inside_scrapy.private_names import (
    feed_complete_default_values_from_settings,
    feed_process_params_from_cli,
)
from bloomdupe.jobs.project import Project

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from scrapy.settings import BaseSettings, Settings

    from bloomdupe.jobs.job import Job

Result = TypeVar("Result")
BATCH = "%(batch_"
"""In the names of feeds whose files have a number of items each."""


def run(work: Coroutine[Any, Any, Result], exporter: FeedExporter) -> Result:
    """Run a coroutine that gives the feeds of an exporter to their storages.

    A storage for other places than local files needs the reactor, which runs once in a
    process. Ctrl-C raises :class:`KeyboardInterrupt`.
    """
    if all(local_path(feed.slot, exporter.here) for feed in exporter.taken):
        return asyncio.run(work)
    install_reactor(ASYNCIO, exporter.settings["ASYNCIO_EVENT_LOOP"])
    from twisted.internet import reactor as any_reactor

    reactor: Any = any_reactor
    ended: list[Any] = []

    def end(result: object) -> None:
        ended.append(result)
        if reactor.running:
            reactor.stop()

    reactor.callWhenRunning(lambda: deferred_from_coro(work).addBoth(end))
    reactor.run()
    if not ended:
        raise KeyboardInterrupt
    result: Result | Failure = ended[0]
    if isinstance(result, Failure):
        result.raiseException()
    return result


def deliver(
    job: Job, settings: Settings | None, named: Sequence[str]
) -> list[dict[str, Any]]:
    """Write all items of a job to the feeds that wait for the end of its crawl.

    Returns for each file its ``uri``, its ``items``, and whether its storage has
    ``stored`` it; if not, the log says why. The crawl may run. Raises
    :class:`~bloomdupe.errors.FeedError`; see also :func:`exporter_with`.
    """
    with job.stores() as (store,):
        record, path = store.now.record("crawl") or {}, store.path
    feeds = record.get("feeds", {})
    kept = {name: feed for name, feed in feeds.items() if waits(feed)}
    if not kept:
        raise FeedError(f"{job.shown} has no feed that waits for the end of its crawl")
    spider = store.header["identity"]["spider"]
    exporter = exporter_with(kept, settings, spider, named, job.shown)
    left = StoredFeeds({**record, "feeds": kept}, path, resumed=True)
    try:
        exporter.restore(left)
        work = delivery.deliver(exporter, left, exporter.waiting)
        made = run(work, exporter)
    finally:
        exporter.release()
    return [
        {"uri": without_secret(slot.uri), "items": slot.itemcount, "stored": stored}
        for slot, stored in made
    ]


def exporter_with(
    names: Iterable[str],
    settings: Settings | None,
    spider: str,
    named: Sequence[str],
    shown: str,
) -> FeedExporter:
    """Return an exporter with the feeds of these names, in their order.

    Anyone who can write to a job, or to its Redis, can name any feed there. So places
    and options come from ``FEEDS`` in the settings of the project, or from the caller,
    who has ``named`` the feeds as ``-o`` does. Raises
    :class:`~bloomdupe.errors.FeedError` if a feed is in neither. The crawl is ``shown``
    in messages.
    """
    settings = get_project_settings() if settings is None else settings.copy()
    # Only the settings of the spider are needed, and most feeds do not need them.
    settings.set("SPIDER_LOADER_WARN_ONLY", True, "cmdline")
    project = Project(settings, spider)
    try:
        feeds = feed_process_params_from_cli(project.settings, [*named])
    except UsageError as error:
        raise SettingError(f"--feed: {error}") from error
    found = {name: _known_feed(name, feeds, project.settings) for name in names}
    lacking = [shlex.quote(name) for name, feed in found.items() if feed is None]
    if lacking:
        # Only the settings say how many items a batch has.
        named_here = f", or add --feed {' --feed '.join(lacking)}"
        raise FeedError(
            f"FEEDS has no feed {' and '.join(lacking)}: run this in the folder of the"
            f" project{named_here * (BATCH not in ''.join(lacking))}"
        )
    crawler = project.crawler_for(dict(feed for feed in found.values() if feed))
    with suppress(NotConfigured):
        exporter = FeedExporter(crawler)
        if exporter.feeds:
            return exporter
    raise FeedError(
        f"the feeds of {shown} cannot be written here, see above: run this in the"
        " folder of the project, and install what its workers have"
    )


def _known_feed(
    name: str, feeds: dict[Any, dict[str, Any]], settings: BaseSettings
) -> tuple[str, dict[str, Any]] | None:
    """Return URI and complete options of the feed of this name; None: it is unknown.

    The name of a feed is its URI without name and password, and with all parameters
    that do not change. The URI has these parameters, too, and the secret.
    """
    for template, options in feeds.items():
        uri = str(template)
        if _may_be_of(name, without_secret(uri)):
            # Before 2.19, Scrapy takes no format from a URI, and needs one.
            with_format = {"format": PurePath(uri).suffix.removeprefix("."), **options}
            given = feed_complete_default_values_from_settings(with_format, settings)
            if BATCH in name and not given["batch_item_count"]:
                return None
            if secret := PARTS.fullmatch(uri):
                name = secret[1] + (secret[2] or "") + name.removeprefix(secret[1])
            return name, {**given, "uri_params": None}
    return None


def _may_be_of(uri: str, template: str) -> bool:
    """Whether a URI may be a result of this template, with its parameters as names."""
    literal = PARAMETER.sub("\0", template).replace("%%", "%")
    pattern = re.escape(literal).replace("\0", "[^/:]*")
    if uri.split("/").count("..") > literal.split("/").count(".."):
        return False
    return re.fullmatch(pattern, uri.replace("%%", "%")) is not None
