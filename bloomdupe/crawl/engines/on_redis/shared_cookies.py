"""SharedCookies: a login on one worker is a login on all of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bloomdupe.crawl.state.cookies import digest_of
from bloomdupe.errors import UnserializableError
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bloomdupe.crawl.state.cookies import PackedCookies
    from bloomdupe.inside_scrapy.cookie_jars import CookieJars

__all__ = ["SharedCookies"]

logger = logger_of(__name__)


class SharedCookies:
    """Sends the cookies of this worker to Redis, and reads those of other workers.

    As on one machine, the last change of a cookie wins.
    """

    def __init__(self, jars: CookieJars, packed: PackedCookies) -> None:
        self._jars = jars
        self._packed = packed
        self._warned = False

    def changes(self) -> list[tuple[bytes, bytes]]:
        """Return this worker's changes since the last call: digests, packed cookies."""
        noted = dict(self._jars.changed)
        changes = []
        now = int(time.time())
        for place, cookie in noted.items():
            key = self._packed.key_of(place.jar)
            if key is None:
                continue
            packed = None
            if cookie is not None and not cookie.is_expired(now):
                packed = self._packed.pack(key, cookie)
            if packed is None:
                packed = self._packed.pack_gone(key, place)
            changes.append((digest_of(key, place), packed))
        self._jars.written(noted)
        return changes

    def take(self, news: Iterable[bytes]) -> None:
        """Apply the changes of other workers to the cookie jars."""
        changed = self._jars.changed
        for packed in news:
            try:
                place, cookie = self._packed.unpack(packed)
            except UnserializableError:
                self._warn()
                continue
            if place in changed:
                continue  # this worker has changed it since
            if cookie is None:
                self._jars.remove(place)
            else:
                self._jars.restore(place.jar, cookie)

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "Some cookies of other workers cannot be used here, because of the key"
                " of their jar (meta['cookiejar']). No more is said of them"
            )
