"""Cookies: part of the checkpoint, so that a logged-in crawl goes on logged in.

In the database ``cookies`` of the store stands one record for each cookie, under the
first 16 bytes of BLAKE2b of jar, domain, path and name. It is a msgpack array (see
:mod:`bloomdupe.crawl.serializer`) of

======= ==========================================================================
element what
======= ==========================================================================
0       key of the jar, packed by itself (``meta["cookiejar"]``; nil is the usual jar)
1 to 17 version, name, value, port, port_specified, domain, domain_specified,
        domain_initial_dot, path, path_specified, secure, expires (Unix time), discard,
        comment, comment_url, other attributes, rfc2109: see
        :class:`http.cookiejar.Cookie`
======= ==========================================================================
"""

from __future__ import annotations

import hashlib
import logging
import time
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError
from bloomdupe.inside_scrapy.cookies import cookie_of, fields_of
from bloomdupe.store.format import COOKIES, DIGEST_BYTES

if TYPE_CHECKING:
    from http.cookiejar import Cookie

    from scrapy import Request, Spider

    from bloomdupe.crawl.serializer import Serializer
    from bloomdupe.inside_scrapy.cookies import CookieJars, Place
    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

__all__ = ["Cookies", "forget_cookies"]

logger = logging.getLogger(__name__)


class Cookies:
    """The cookies of all jars; a checkpoint writes those that have changed.

    Session cookies are kept as the others are: a crash does not end the session, the
    crawl that goes on is the same visitor. Those that have expired are removed.

    Nothing is kept in memory but the changes since the last checkpoint and the packed
    keys of the jars; the jars themselves are Scrapy's.

    The values are secrets, and no message contains them.
    """

    def __init__(
        self, jars: CookieJars, store: Store, serializer: Serializer, spider: Spider
    ) -> None:
        self._jars = jars
        self._store = store
        self._serializer = serializer
        self._extra = {"spider": spider}
        # A pickle of an equal key may be another one, so each is packed once.
        self._keys: dict[Any, bytes | None] = {}
        self._warned = False

    def restore(self) -> None:
        """Fill the jars with what the last checkpoint holds."""
        now = int(time.time())
        restored = unreadable = 0
        jars: dict[bytes, Any] = {}
        with self._store.snapshot() as snapshot:
            left_out = snapshot.cookies_left_out
            for packed in snapshot.cookies():
                try:
                    key, *fields = self._serializer.load_value(packed)
                    if key not in jars:
                        jars[key] = self._serializer.load_value(key)
                except UnserializableError:
                    unreadable += 1
                    continue
                cookie = cookie_of(fields)
                jar = jars[key]
                self._keys[jar] = key
                if cookie.is_expired(now):
                    self._jars.expire(jar, cookie)
                else:
                    self._jars.restore(jar, cookie)
                    restored += 1
        self._say(restored, unreadable, left_out)

    def _say(self, restored: int, unreadable: int, left_out: int) -> None:
        if restored:
            logger.info(
                "%(cookies)d cookies restored, as of the last checkpoint",
                {"cookies": restored},
                extra=self._extra,
            )
        if unreadable:
            logger.warning(
                "%(cookies)d cookies are in the store and cannot be restored with these"
                " settings, because of the key of their jar (meta['cookiejar']); was"
                ' BLOOMDUPE_SERIALIZER = "pickle" when they were stored?',
                {"cookies": unreadable},
                extra=self._extra,
            )
        if left_out:
            logger.warning(
                "The store was restored from a backup that has left out %(cookies)d"
                " cookies, so the crawl may not be logged in any more. `bloomdupe"
                " backup --with-cookies` keeps them",
                {"cookies": left_out},
                extra=self._extra,
            )

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._jars.changed)

    def change(self) -> _Change:
        """Work out what the next checkpoint writes, and change nothing of the jars.

        The database is made if there is none and it is needed.
        """
        noted = dict(self._jars.changed)
        puts: dict[bytes, bytes] = {}
        gone: list[bytes] = []
        now = int(time.time())
        for place, cookie in noted.items():
            key = self._key_of(place.jar)
            if key is None:
                continue
            digest = _digest(key, place)
            packed = None
            if cookie is not None and not cookie.is_expired(now):
                packed = self._pack(key, cookie)
            if packed is None:
                gone.append(digest)
            else:
                puts[digest] = packed
        if puts:
            self._store.make_room_for(COOKIES)
        return _Change(self, noted, puts, gone)

    def _key_of(self, jar: Any) -> bytes | None:  # noqa: ANN401 - whatever was in meta
        if jar not in self._keys:
            try:
                self._keys[jar] = self._serializer.dump_value(jar)
            except UnserializableError:
                self._keys[jar] = None
                self._warn(f"the key of their jar, a {global_object_name(type(jar))}")
        return self._keys[jar]

    def _pack(self, key: bytes, cookie: Cookie) -> bytes | None:
        try:
            return self._serializer.dump_value([key, *fields_of(cookie)])
        except UnserializableError:
            self._warn(f"an attribute of a {global_object_name(type(cookie))}")
            return None

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "Some cookies cannot be stored, because of %(what)s, so after a crash"
                " they are gone; no more of them are named here",
                {"what": what},
                extra=self._extra,
            )

    def _written(self, noted: dict[Place, Cookie | None]) -> None:
        self._jars.written(noted)
        for jar in {place.jar for place in noted}:
            if jar not in self._jars:
                self._keys.pop(jar, None)

    @staticmethod
    def without_header(request: Request) -> Request:
        """Return the request as it is stored.

        A request that is sent again has the header ``Cookie`` of the first time. The
        middleware makes it anew from its jar, so that secret need not lie in the
        frontier, nor in a backup. With ``dont_merge_cookies`` it is the spider's own.
        """
        if "Cookie" not in request.headers or request.meta.get("dont_merge_cookies"):
            return request
        headers = request.headers.copy()
        del headers["Cookie"]
        stored = copy(request)  # replace() would run the constructor of its class
        stored.headers = headers
        return stored


class _Change(NamedTuple):
    """The cookies' part of a transaction (a :class:`bloomdupe.store.store.Change`)."""

    cookies: Cookies
    noted: dict[Place, Cookie | None]
    puts: dict[bytes, bytes]
    gone: list[bytes]

    def write(self, batch: Batch) -> None:
        """Put it into the transaction."""
        batch.delete_cookies(self.gone)
        if self.puts:
            batch.put_cookies(self.puts)
            batch.note_cookies_left_out(0)

    def done(self) -> None:
        """Take note that it is durable."""
        self.cookies._written(self.noted)


class _Forget:
    """Remove all cookies (a :class:`bloomdupe.store.store.Change`)."""

    def write(self, batch: Batch) -> None:
        """Put it into the transaction."""
        batch.clear_cookies()

    def done(self) -> None:
        """Nothing is to be noted."""


def forget_cookies(store: Store) -> None:
    """Remove the cookies that are stored, if there are any."""
    with store.snapshot() as snapshot:
        left_out = snapshot.cookies_left_out
    if left_out or store.totals.get(COOKIES, [0])[0]:
        store.commit(_Forget())


def _digest(key: bytes, place: Place) -> bytes:
    texts = (place.domain, place.path, place.name)
    hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in (key, *(text.encode(errors="surrogatepass") for text in texts)):
        hashed.update(len(part).to_bytes(4, "little") + part)
    return hashed.digest()
