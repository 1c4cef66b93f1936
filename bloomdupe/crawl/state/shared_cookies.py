"""SharedCookies: a login of one worker is a login of all workers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.state.cookies import Cookies, digest_of
from bloomdupe.errors import UnserializableError
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bloomdupe.store.batch import Batch


class SharedCookies(Cookies):
    """The cookies of a crawl on Redis; a commit writes those that have changed.

    Each worker sees in its looks how many commits have changed cookies, and *takes* the
    cookies of others. As on one machine, the last change of a cookie wins. ``stored``
    reads all cookies from Redis. ``anew`` begins without those of the last round.
    """

    def __init__(
        self,
        *of_cookies: Any,  # noqa: ANN401 - arguments of Cookies
        stored: Callable[[], Iterable[bytes]],
        anew: bool,
    ) -> None:
        super().__init__(*of_cookies)
        self.stored = stored
        self._anew = anew
        self.version = 0
        """Number of commits with changed cookies whose cookies are known."""

    def restore(self) -> None:
        """Fill the jars with the cookies of the crawl."""
        if not self._anew:
            self._say(*self.take(self.stored()), 0)

    def take(self, stored: Iterable[bytes]) -> tuple[int, int]:
        """Take stored cookies, unless they have changed here since.

        Returns how many there are, and how many more cannot be unpacked here.
        """
        changed, now = self._jars.changed, int(time.time())
        taken = unreadable = 0
        for packed in stored:
            try:
                place, cookie = self._packed.unpack(packed)
            except UnserializableError:
                unreadable += 1
                continue
            if place in changed:
                continue
            if cookie is None or cookie.is_expired(now):
                self._jars.remove(place)
            else:
                self._jars.restore(place.jar, cookie)
                taken += 1
        return taken, unreadable

    def prepare(self) -> Part:
        """Return the changes of this worker, for the next commit."""
        changes, now = dict(self._jars.changed), int(time.time())
        puts: list[tuple[bytes, bytes]] = []
        for place, cookie in changes.items():
            key = self._packed.key_of(place.jar)
            if key is None:
                continue
            packed = None
            if cookie is not None and not cookie.is_expired(now):
                packed = self._packed.pack(key, cookie)
            puts.append((
                digest_of(key, place), packed or self._packed.pack_gone(key, place),
            ))  # fmt: skip
        anew = self._anew

        def write(batch: Batch) -> None:
            shared: Any = batch  # of a store on Redis
            shared.put_cookies(puts, anew=anew)

        def done() -> None:
            self._anew = False
            self._written(changes)
            self.version += bool(puts or anew)

        return Part(write=write, done=done)
