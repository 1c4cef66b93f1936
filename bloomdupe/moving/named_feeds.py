"""Named feeds: the settings of the feeds that a crawl names."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured, UsageError
from scrapy.utils.project import get_project_settings

from bloomdupe.errors import FeedError, SettingError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.feed_format import PARAMETER, PARTS, without_secret
from bloomdupe.inside_scrapy.private_names import (
    feed_complete_default_values_from_settings,
    feed_process_params_from_cli,
)
from bloomdupe.jobs.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy.settings import BaseSettings, Settings


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
        raise FeedError(
            f"FEEDS has no feed {' and '.join(lacking)}: run this in the folder of the"
            f" project, or add --feed {' --feed '.join(lacking)}"
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
        if name == uri or _may_be_of(name, without_secret(uri)):
            given = feed_complete_default_values_from_settings(options, settings, uri)
            return _with_secret(name, uri), {**given, "uri_params": None}
    return None


def _may_be_of(uri: str, template: str) -> bool:
    """Whether a URI may be a result of this template, with its parameters as names."""
    literal = PARAMETER.sub("\0", template).replace("%%", "%")
    pattern = re.escape(literal).replace("\0", "[^/:]*")
    if uri.split("/").count("..") > literal.split("/").count(".."):
        return False
    return re.fullmatch(pattern, uri.replace("%%", "%")) is not None


def _with_secret(uri: str, other: str) -> str:
    """Return a URI with the name and the password of another URI."""
    found, secret = PARTS.fullmatch(uri), PARTS.fullmatch(other)
    if found is None or secret is None:
        return uri
    return found[1] + (secret[2] or "") + found[3]
