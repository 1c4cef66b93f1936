"""Named feeds: the feeds that Redis names, with the settings that may write them."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bloomdupe.errors import FeedError, StoreMismatchError
from bloomdupe.feeds.feed_format import changed_options, options_of
from bloomdupe.feeds.stream import (
    FEED_OPTIONS,
    JSON_LINES,
    OBJECTS,
)
from bloomdupe.feeds.uri import CHANGING, PARAMETER, PARTS, without_secret
from bloomdupe.inside_scrapy.helpers import (
    feed_complete_default_values_from_settings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

STREAMS = {
    f"scrapy.extensions.postprocessing.{n}Plugin" for n in ("Gzip", "Bz2", "LZMA")
}
"""The plugins that may be imported because Redis names them."""


def feeds_for(
    identity: dict[str, Any], settings: BaseSettings, named: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the ``FEEDS`` of a crawl: those of the settings, or as they were recorded.

    Anyone who can write to this Redis can name any feed there. So the settings must
    have a feed for another storage than files, or the caller has ``named`` its URI.

    The name of a feed is its URI without name and password, and with all parameters
    that do not change. Raises :class:`~bloomdupe.errors.FeedError`.
    """
    ours = settings.getdict("FEEDS")
    names: list[str] = identity["feeds"]
    recorded = identity.get(FEED_OPTIONS, [{}] * len(names))
    feeds = {}
    for name, options in zip(names, recorded, strict=True):
        found = known_feed(name, ours, settings)
        uri, given = (name, None) if found is None else found
        if found is None and not _is_local(name):
            uri = next((uri for uri in named if without_secret(uri) == name), "")
            if not uri:
                raise FeedError(
                    f"the feed {name} is no file on this machine, and only Redis names"
                    " it: if you want it written, run this in the folder of the"
                    " project, with the feed in FEEDS, or add"
                    f" --feed {shlex.quote(name)}"
                )
        feeds[uri] = given_options(name, options, given)
    if len(feeds) != len(names):
        raise StoreMismatchError(f"two feeds of the crawl have the same name: {names}")
    return feeds


def given_options(
    name: str, recorded: dict[str, Any], given: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the options of a feed for the process that writes it.

    ``recorded`` are those of the workers, see
    :attr:`~bloomdupe.feeds.stream.StreamFeed.shared_options`,
    and ``given`` those of the settings here, if these have the feed. Raises
    :class:`~bloomdupe.errors.FeedError` if they differ, or if they are needed.
    """
    options = {key: recorded.get(key, value) for key, value in JSON_LINES.items()}
    if given is None:
        # No plugin is imported because Redis names it.
        if recorded.get(OBJECTS) or {*options["postprocessing"]} - STREAMS:
            raise FeedError(
                f"the feed {name} has options that only the settings of its project can"
                " hold: run this in the folder of the project, with the feed in FEEDS"
            )
        if not options["postprocessing"]:
            del options["postprocessing"]  # Scrapy closes the file if it is empty
        return {**options, "uri_params": None}
    changed = changed_options(options_of(options), options_of(given))
    if changed:
        was, has = changed
        raise FeedError(
            f"FEEDS: the workers have the feed {name} with {was}, here it has {has}:"
            " set it as it is there"
        )
    return given


def known_feed(
    name: str, feeds: dict[Any, dict[str, Any]], settings: BaseSettings
) -> tuple[str, dict[str, Any]] | None:
    """Return URI and complete options of the feed of this name; None: it is unknown.

    ``feeds`` is ``FEEDS``. The URI has the parameters that do not change, as the name
    has them, and the secret.
    """
    for template, options in feeds.items():
        uri = str(template)
        if name == uri or may_be_of(name, without_secret(uri)):
            given = feed_complete_default_values_from_settings(options, settings, uri)
            return _with_secret(name, uri), {**given, "uri_params": None}
    return None


def may_be_of(uri: str, template: str) -> bool:
    """Whether a URI may be a result of this template.

    The parameters of time and batch stay in their part of the URI, and no parameter
    leads upwards.
    """

    def marked(found: re.Match[str]) -> str:
        return "\0" if found["name"] in CHANGING else "\1"

    literal = PARAMETER.sub(marked, template).replace("%%", "%")
    pattern = re.escape(literal).replace("\0", "[^/]*").replace("\1", ".*")
    if uri.split("/").count("..") > literal.split("/").count(".."):
        return False
    return re.fullmatch(pattern, uri.replace("%%", "%"), re.DOTALL) is not None


def own_parts(template: str) -> int:
    """Count the last parts of a URI, from the first on that changes; at least 1."""
    parts = template.split("/")
    for number, part in enumerate(parts):
        if any(f["name"] in CHANGING for f in PARAMETER.finditer(part)):
            return len(parts) - number
    return 1


def _with_secret(uri: str, other: str) -> str:
    """Return a URI with the name and the password of another URI."""
    found, secret = PARTS.fullmatch(uri), PARTS.fullmatch(other)
    if found is None or secret is None:
        return uri
    return found[1] + (secret[2] or "") + found[3]


def _is_local(uri: str) -> bool:
    """Whether a URI is for a file on this machine; False if it cannot be read."""
    try:
        return urlsplit(uri).scheme in {"", "file"}
    except ValueError:
        return False
