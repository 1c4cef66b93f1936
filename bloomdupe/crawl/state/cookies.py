"""Cookies: part of the checkpoint, so that a logged-in crawl goes on logged in.

The table ``cookies`` of the store holds a msgpack array for each cookie (see
:mod:`bloomdupe.requests.values`), under the digest of its place.

======= ==============================================================================
element content
======= ==============================================================================
0       key of the jar (``meta["cookiejar"]``; nil: the usual jar)
1 to 17 version, name, value, port, port_specified, domain, domain_specified,
        domain_initial_dot, path, path_specified, secure, expires (Unix time), discard,
        comment, comment_url, other attributes, rfc2109: see
        :class:`http.cookiejar.Cookie`
======= ==============================================================================

The place is an array of the key of the jar, domain, path and name. It stands for a
cookie that is gone.
"""

from __future__ import annotations

import hashlib
import time
from copy import copy
from http.cookiejar import Cookie
from typing import TYPE_CHECKING

from scrapy.utils.python import global_object_name

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import UnserializableError
from bloomdupe.inside_scrapy.cookie_jars import Place, fields_of
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import pack, unpack
from bloomdupe.store.format import COOKIES, DIGEST_BYTES
from bloomdupe.store.store import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from scrapy import Request

    from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
    from bloomdupe.inside_scrapy.cookie_jars import CookieJars


logger = logger_of(__name__)


class Cookies(Participant):
    """The cookies of all jars; a checkpoint writes those that have changed.

    The jars begin with those of the last checkpoint, session cookies among them: a
    crash does not end the session, because the resumed crawl is the same visitor.
    Expired cookies are removed. A new round begins without those that are stored, and
    removes them.

    Several workers share the cookies. Each sees how many commits have changed any, and
    *takes* those of others: a login of one is a login of all. The last change of a
    cookie wins. One that is gone leaves its place behind, for others to know.

    Memory holds only the changes since the last checkpoint; the jars are Scrapy's.

    The values are secrets, and no message contains them.
    """

    def __init__(self, engine: CrawlEngine, jars: CookieJars) -> None:
        assert engine.frontier.store is not None  # noqa: S101 - or nothing is kept
        self._jars = jars
        self._store = engine.frontier.store
        self._share = engine.settings.is_shared
        self._anew = engine.frontier.leads and not engine.run.resumed
        self._warned = False
        self.version = 0
        """Number of commits with changed cookies whose cookies are known."""
        if not self._anew and (restored := self._take(self.stored(), set())):
            logger.info(
                "%(cookies)s restored, as of the last checkpoint",
                {"cookies": plural(restored, "cookie")},
            )

    def stored(self) -> list[bytes]:
        """Read all cookies from the store."""
        return [bytes(packed) for _, packed in self._store.now.records(COOKIES)]

    def take(self, stored: Iterable[bytes], version: int) -> None:
        """Take the cookies of a version, unless they have changed here since."""
        self.version = version
        self._take(stored, self._jars.changed)

    def _take(self, stored: Iterable[bytes], but: Container[Place]) -> int:
        """Take stored cookies ``but`` those in some places; return how many."""
        now = int(time.time())
        taken = 0
        for packed in stored:
            try:
                place, cookie = unpacked(packed)
            except Exception:  # noqa: BLE001 - of the data, or what is named in it
                self._warn("the key of their jar (meta['cookiejar'])")
                continue
            if place in but:
                continue
            if cookie is None:
                self._jars.remove(place)
            elif cookie.is_expired(now):
                self._jars.expire(place)
            else:
                self._jars.restore(place.jar, cookie)
                taken += 1
        return taken

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self._anew or bool(self._jars.changed)

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        changes, anew, now = dict(self._jars.changed), self._anew, int(time.time())
        found = (self._record(place, cookie, now) for place, cookie in changes.items())
        records = dict(record for record in found if record is not None)

        def done() -> None:
            self._anew = False
            self.version += bool(records or anew)
            self._jars.written(changes)

        cleared = (COOKIES,) if anew else ()
        return Part(cleared=cleared, changes={COOKIES: records}, done=done)

    def _record(
        self, place: Place, cookie: Cookie | None, now: int
    ) -> tuple[bytes, bytes | None] | None:
        """Return the record of a cookie; None, and a warning, if it cannot have any."""
        try:
            gone = pack([*place])
        except UnserializableError:
            self._warn(f"the key of their jar, a {global_object_name(type(place.jar))}")
            return None
        digest = hashlib.blake2b(gone, digest_size=DIGEST_BYTES).digest()
        if cookie is not None and not cookie.is_expired(now):
            try:
                return digest, pack([place.jar, *fields_of(cookie)])
            except UnserializableError:
                self._warn(f"an attribute of a {global_object_name(type(cookie))}")
        return digest, gone if self._share else None

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "Some cookies cannot be stored or restored, because of %(what)s, so"
                " after a crash they are gone; no more of them are named here",
                {"what": what},
            )


def unpacked(packed: bytes) -> tuple[Place, Cookie | None]:
    """Return a stored cookie and its place; None in its place if it is gone.

    Raises any exception if that is not possible.
    """
    jar, *fields = unpack(packed)
    if len(fields) == len(Place._fields) - 1:
        return Place(jar, *fields), None
    cookie = Cookie(*fields)
    return Place.of(jar, cookie), cookie


def without_cookie_header(request: Request) -> Request:
    """Return a request as it is stored.

    A request that is sent again has the header ``Cookie`` of the first time. The
    middleware makes it anew from its jar, so this secret need not be in the frontier or
    in a backup. With ``dont_merge_cookies`` the header is the spider's own.
    """
    if "Cookie" not in request.headers or request.meta.get("dont_merge_cookies"):
        return request
    headers = request.headers.copy()
    del headers["Cookie"]
    stored = copy(request)  # replace() would run the constructor of its class
    stored.headers = headers
    return stored
