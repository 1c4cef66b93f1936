"""Cookies: part of the checkpoint, so that a logged-in crawl goes on logged in.

The database ``cookies`` of the store holds a record for each cookie, packed by
:class:`~bloomdupe.crawl.state.cookies_packed.PackedCookies`, under the digest of its
place.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.plural import plural
from bloomdupe.crawl.state.cookies_packed import PackedCookies, digest_of
from bloomdupe.errors import UnserializableError
from bloomdupe.printable import logger_of
from bloomdupe.store.format import COOKIES
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from http.cookiejar import Cookie

    from scrapy import Spider

    from bloomdupe.crawl.requests.serializer import Serializer
    from bloomdupe.inside_scrapy.cookie_jars import CookieJars, Place
    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

__all__ = ["Cookies", "forget_cookies"]

logger = logger_of(__name__)


class Cookies(Participant):
    """The cookies of all jars; a checkpoint writes those that have changed.

    Session cookies are kept, too: a crash does not end the session, because the resumed
    crawl is the same visitor. Expired cookies are removed.

    Memory holds only the changes since the last checkpoint and the packed keys of the
    jars; the jars themselves are Scrapy's.

    The values are secrets, and no message contains them.
    """

    def __init__(
        self, jars: CookieJars, store: Store, serializer: Serializer, spider: Spider
    ) -> None:
        self._jars = jars
        self._store = store
        self._packed = PackedCookies(serializer, spider)
        self._extra = {"spider": spider}

    def restore(self) -> None:
        """Fill the jars with the cookies of the last checkpoint."""
        now = int(time.time())
        restored = unreadable = 0
        with self._store.snapshot() as snapshot:
            left_out = snapshot.cookies_left_out
            for packed in snapshot.cookies():
                try:
                    place, cookie = self._packed.unpack(packed)
                except UnserializableError:
                    unreadable += 1
                    continue
                if cookie is None or cookie.is_expired(now):
                    self._jars.expire(place)
                else:
                    self._jars.restore(place.jar, cookie)
                    restored += 1
        self._say(restored, unreadable, left_out)

    def _say(self, restored: int, unreadable: int, left_out: int) -> None:
        if restored:
            logger.info(
                "%(cookies)s restored, as of the last checkpoint",
                {"cookies": plural(restored, "cookie")},
                extra=self._extra,
            )
        if unreadable:
            logger.warning(
                "%(cookies)s in the store and cannot be restored with these"
                " settings, because of the key of their jar (meta['cookiejar']); was"
                ' BLOOMDUPE_SERIALIZER = "pickle" when they were stored?',
                {"cookies": plural(unreadable, "cookie is", "cookies are")},
                extra=self._extra,
            )
        if left_out:
            logger.warning(
                "The store was restored from a backup that has left out"
                " %(cookies)s, so the crawl may not be logged in any more. `bloomdupe"
                " backup --with-cookies` keeps them",
                {"cookies": plural(left_out, "cookie")},
                extra=self._extra,
            )

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._jars.changed)

    def prepare(self) -> Part:
        """Return the part of the next checkpoint; create the database if needed."""
        changes = dict(self._jars.changed)
        puts: dict[bytes, bytes] = {}
        gone: list[bytes] = []
        now = int(time.time())
        for place, cookie in changes.items():
            key = self._packed.key_of(place.jar)
            if key is None:
                continue
            digest = digest_of(key, place)
            packed = None
            if cookie is not None and not cookie.is_expired(now):
                packed = self._packed.pack(key, cookie)
            if packed is None:
                gone.append(digest)
            else:
                puts[digest] = packed
        if puts:
            self._store.make_room_for(COOKIES)

        def write(batch: Batch) -> None:
            batch.delete_cookies(gone)
            if puts:
                batch.put_cookies(puts)
                batch.note_cookies_left_out(0)

        return Part(write=write, done=lambda: self._written(changes))

    def _written(self, changes: dict[Place, Cookie | None]) -> None:
        self._jars.written(changes)
        for jar in {place.jar for place in changes}:
            if jar not in self._jars:
                self._packed.forget(jar)


def forget_cookies(store: Store) -> None:
    """Remove the stored cookies, if there are any."""
    with store.snapshot() as snapshot:
        left_out = snapshot.cookies_left_out
    if left_out or store.totals.get(COOKIES, [0])[0]:
        store.commit(Part(write=lambda batch: batch.clear_cookies()))
