"""Cookies: part of the checkpoint, so that a logged-in crawl goes on logged in.

The table ``cookies`` of the store holds a record for each cookie, packed by
:class:`~bloomdupe.crawl.state.cookies.PackedCookies`, under the digest of its
place.
"""

from __future__ import annotations

import hashlib
import time
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.utils.python import global_object_name

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import UnserializableError
from bloomdupe.inside_scrapy.cookie_jars import Place, cookie_of, fields_of
from bloomdupe.printable import logger_of
from bloomdupe.store.format import COOKIES, DIGEST_BYTES
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from http.cookiejar import Cookie

    from scrapy import Request, Spider

    from bloomdupe.inside_scrapy.cookie_jars import CookieJars
    from bloomdupe.requests.serializer import Serializer
    from bloomdupe.store.batch import Batch, Change
    from bloomdupe.store.store import Store


logger = logger_of(__name__)


class Cookies(Participant):
    """The cookies of all jars; a checkpoint writes those that have changed.

    Session cookies are kept, too: a crash does not end the session, because the resumed
    crawl is the same visitor. Expired cookies are removed. ``anew`` begins without
    those that are stored, and removes them.

    If several workers ``share`` the cookies, each sees how many commits have changed
    any, and *takes* those of others: a login of one is a login of all. The last change
    of a cookie wins. One that is gone leaves its place behind, for others to know.

    Memory holds only the changes since the last checkpoint and the packed keys of the
    jars; the jars themselves are Scrapy's.

    The values are secrets, and no message contains them.
    """

    def __init__(
        self,
        jars: CookieJars,
        store: Store,
        serializer: Serializer,
        spider: Spider,
        *,
        share: bool = False,
        anew: bool = False,
    ) -> None:
        self._jars = jars
        self._store = store
        self._packed = PackedCookies(serializer, spider)
        self._extra = {"spider": spider}
        self._share = share
        self._anew = anew
        self.version = 0
        """Number of commits with changed cookies whose cookies are known."""

    def restore(self) -> None:
        """Fill the jars with the cookies of the last checkpoint."""
        if self._anew:
            return
        restored, unreadable = self._take(self.stored(), set())
        if restored:
            logger.info(
                "%(cookies)s restored, as of the last checkpoint",
                {"cookies": plural(restored, "cookie")},
                extra=self._extra,
            )
        if unreadable:
            logger.warning(
                "%(cookies)s in the store and cannot be restored, because of the key of"
                " their jar (meta['cookiejar'])",
                {"cookies": plural(unreadable, "cookie is", "cookies are")},
                extra=self._extra,
            )

    def stored(self) -> list[bytes]:
        """Read all cookies from the store."""
        with self._store.snapshot() as snapshot:
            return [bytes(packed) for _, packed in snapshot.records(COOKIES)]

    def take(self, stored: Iterable[bytes], version: int) -> None:
        """Take the cookies of a version, unless they have changed here since."""
        self.version = version
        self._take(stored, self._jars.changed)

    def _take(self, stored: Iterable[bytes], but: Container[Place]) -> tuple[int, int]:
        """Take stored cookies ``but`` those in some places.

        Returns how many there are, and how many more cannot be unpacked here.
        """
        now = int(time.time())
        taken = unreadable = 0
        for packed in stored:
            try:
                place, cookie = self._packed.unpack(packed)
            except UnserializableError:
                unreadable += 1
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
        return taken, unreadable

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self._anew or bool(self._jars.changed)

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        changes, anew, now = dict(self._jars.changed), self._anew, int(time.time())
        puts: list[Change] = []
        for place, cookie in changes.items():
            key = self._packed.key_of(place.jar)
            if key is None:
                continue
            packed = None
            if cookie is not None and not cookie.is_expired(now):
                packed = self._packed.pack(key, cookie)
            if packed is None and self._share:
                packed = self._packed.pack_gone(key, place)
            puts.append((digest_of(key, place), packed))

        def write(batch: Batch) -> None:
            if anew:
                batch.clear(COOKIES)
            batch.change(COOKIES, puts)

        def done() -> None:
            self._anew = False
            self.version += bool(puts or anew)
            self._jars.written(changes)
            for jar in {place.jar for place in changes}:
                if jar not in self._jars:
                    self._packed.forget(jar)

        return Part(write=write, done=done)


class Unpacked(NamedTuple):
    """A cookie and its place; the cookie is None if it is gone."""

    place: Place
    cookie: Cookie | None


class PackedCookies:
    """Packs cookies for a crawl, and unpacks them.

    A packed cookie is a msgpack array (see :mod:`bloomdupe.requests.serializer`)
    of

    ======= ==========================================================================
    element content
    ======= ==========================================================================
    0       key of the jar, packed by itself (``meta["cookiejar"]``; nil: the usual jar)
    1 to 17 version, name, value, port, port_specified, domain, domain_specified,
            domain_initial_dot, path, path_specified, secure, expires (Unix time),
            discard, comment, comment_url, other attributes, rfc2109: see
            :class:`http.cookiejar.Cookie`
    ======= ==========================================================================

    A cookie that is gone is an array of the key of the jar, domain, path and name.

    The values are secrets, and no message contains them.
    """

    def __init__(self, serializer: Serializer, spider: Spider) -> None:
        self._serializer = serializer
        self._extra = {"spider": spider}
        # Pickles of equal keys may differ, so each key is packed once.
        self._keys: dict[Any, bytes | None] = {}
        self._jars: dict[bytes, Any] = {}
        self._warned = False

    def key_of(self, jar: Any) -> bytes | None:  # noqa: ANN401 - any value of meta
        """Pack the key of a jar; None, and a warning, if it cannot be stored."""
        if jar not in self._keys:
            try:
                self._keys[jar] = self._serializer.dump_value(jar)
            except UnserializableError:
                self._keys[jar] = None
                self._warn(f"the key of their jar, a {global_object_name(type(jar))}")
        return self._keys[jar]

    def pack(self, key: bytes, cookie: Cookie) -> bytes | None:
        """Pack a cookie; None, and a warning, if it cannot be stored."""
        try:
            return self._serializer.dump_value([key, *fields_of(cookie)])
        except UnserializableError:
            self._warn(f"an attribute of a {global_object_name(type(cookie))}")
            return None

    def pack_gone(self, key: bytes, place: Place) -> bytes:
        """Pack the place of a cookie that is gone."""
        return self._serializer.dump_value([key, *place[1:]])

    def unpack(self, packed: bytes) -> Unpacked:
        """Make a cookie again; raises :class:`UnserializableError`."""
        key, *fields = self._serializer.load_value(packed)
        if key not in self._jars:
            self._jars[key] = self._serializer.load_value(key)
        jar = self._jars[key]
        self._keys[jar] = key
        if len(fields) == len(Place._fields) - 1:
            return Unpacked(Place(jar, *fields), None)
        cookie = cookie_of(fields)
        return Unpacked(Place(jar, cookie.domain, cookie.path, cookie.name), cookie)

    def forget(self, jar: Any) -> None:  # noqa: ANN401
        """Forget the key of a jar that is gone."""
        key = self._keys.pop(jar, None)
        if key is not None:
            self._jars.pop(key, None)

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "Some cookies cannot be stored, because of %(what)s, so after a crash"
                " they are gone; no more of them are named here",
                {"what": what},
                extra=self._extra,
            )


def digest_of(key: bytes, place: Place) -> bytes:
    """Return the digest of a cookie's place: 16 bytes of BLAKE2b.

    It covers jar, domain, path and name.
    """
    texts = (place.domain, place.path, place.name)
    hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in (key, *(text.encode(errors="surrogatepass") for text in texts)):
        hashed.update(len(part).to_bytes(4, "little") + part)
    return hashed.digest()


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
