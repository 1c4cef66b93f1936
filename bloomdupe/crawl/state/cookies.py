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
from bloomdupe.store.format import COOKIES, DIGEST_BYTES, META
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from http.cookiejar import Cookie

    from scrapy import Request, Spider

    from bloomdupe.inside_scrapy.cookie_jars import CookieJars
    from bloomdupe.requests.serializer import Serializer
    from bloomdupe.store.batch import Change
    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Store


NOTHING_LEFT_OUT: Change = (COOKIES, None)
"""Removes the note that a backup has left cookies out."""

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
            left_out = _left_out(snapshot)
            for _, packed in snapshot.records(COOKIES):
                try:
                    place, cookie = self._packed.unpack(bytes(packed))
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
                "%(cookies)s in the store and cannot be restored, because of the key of"
                " their jar (meta['cookiejar'])",
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
        """Return the part of the next checkpoint."""
        changes = dict(self._jars.changed)
        puts: list[Change] = []
        now = int(time.time())
        for place, cookie in changes.items():
            key = self._packed.key_of(place.jar)
            if key is None:
                continue
            digest = digest_of(key, place)
            packed = None
            if cookie is not None and not cookie.is_expired(now):
                packed = self._packed.pack(key, cookie)
            puts.append((digest, packed))
        note = [NOTHING_LEFT_OUT] if any(packed for _, packed in puts) else []
        return Part(
            changes={COOKIES: puts, META: note},
            done=lambda: self._written(changes),
        )

    def _written(self, changes: dict[Place, Cookie | None]) -> None:
        self._jars.written(changes)
        for jar in {place.jar for place in changes}:
            if jar not in self._jars:
                self._packed.forget(jar)


def forget_cookies(store: Store) -> None:
    """Remove the stored cookies, if there are any."""
    with store.snapshot() as snapshot:
        none = not (_left_out(snapshot) or snapshot.entries(COOKIES))
    if not none:
        note = {META: [NOTHING_LEFT_OUT]}
        store.commit(Part(changes=note, write=lambda batch: batch.clear(COOKIES)))


def _left_out(snapshot: Snapshot) -> int:
    """Return how many cookies were left out when this store was made as a backup."""
    record = snapshot.record(COOKIES.decode())
    return 0 if record is None else int(record["left_out"])


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
