"""CookieJars: the cookies of Scrapy's CookiesMiddleware, and their changes.

Each of its jars holds a :class:`http.cookiejar.CookieJar`. All code that sets or
removes a cookie calls ``set_cookie`` or ``clear`` of that object: answers to requests,
to redirects and for robots.txt, ``request.cookies``, expiry, and code that uses the
jars itself. So a subclass with these two methods sees every single change.

Where the jars differ from Scrapy's, :meth:`CookieJars.of` does without them.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from contextlib import suppress
from http.cookiejar import Cookie, CookieJar
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.downloadermiddlewares.cookies import CookiesMiddleware

from bloomdupe.errors import EngineError
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logger_of(__name__)


class Place(NamedTuple):
    """The key of a cookie in the jars."""

    jar: Any
    """Key of the jar: ``meta["cookiejar"]``, None for the usual one."""
    domain: str
    path: str
    name: str

    @classmethod
    def of(cls, jar: Any, cookie: Cookie) -> Place:
        """Return the key of a cookie in the jar with this key."""
        return cls(jar, cookie.domain, cookie.path, cookie.name)


class CookieJars:
    """The jars of a crawl, watched from now on.

    Raises :class:`~bloomdupe.errors.EngineError` if they differ from Scrapy's.
    """

    def __init__(self, middleware: CookiesMiddleware) -> None:
        self._middleware = middleware
        self._changed: dict[Place, Cookie | None] = {}
        self._known: dict[Any, Any] = {}
        """The jars that are watched, by key."""
        factory = getattr(self._follow_jars(), "default_factory", None)
        if factory is not None:
            _inner(factory())

    @classmethod
    def of(cls, crawler: Crawler) -> CookieJars | None:
        """Return the jars of a crawl; None if it does not have Scrapy's middleware.

        A class derived from Scrapy's middleware is fine, if its jars are Scrapy's. A
        warning says so if they are not.
        """
        middleware = crawler.get_downloader_middleware(CookiesMiddleware)
        if middleware is None:
            return None
        try:
            return cls(middleware)
        except EngineError as error:
            logger.warning(
                "Cookies are not part of the checkpoints: %(error)s", {"error": error}
            )
            return None

    def _follow_jars(self) -> dict[Any, Any]:
        """Watch the present jars, and report those that are new, or gone."""
        jars: Any = getattr(self._middleware, "jars", None)
        if type(jars) not in (dict, defaultdict):
            raise _unknown("CookiesMiddleware.jars")
        known = self._known
        if jars == known:  # the same objects; fast, because a crawl may have many
            return jars  # type: ignore[no-any-return]
        for key in [key for key in known if jars.get(key) is not known[key]]:
            self._leave(key, known.pop(key))
        for key in [key for key in jars if key not in known]:
            self._enter(key, jars[key])
        return jars  # type: ignore[no-any-return]

    def _enter(self, key: Any, jar: Any) -> None:
        """Watch a jar, and report the cookies that are in it already."""
        inner = _inner(jar)
        inner.__class__ = _Watched
        inner.key, inner.changes = key, self._changed
        for cookie in inner:
            self._changed[Place.of(key, cookie)] = cookie
        self._known[key] = jar

    def _leave(self, key: Any, jar: Any) -> None:
        """Stop watching a jar: its cookies are not sent any more."""
        inner = _inner(jar)
        inner.__class__ = CookieJar
        for cookie in inner:
            self._changed[Place.of(key, cookie)] = None

    def restore(self, key: Any, cookie: Cookie) -> None:
        """Put a cookie into its jar, and do not count it as changed."""
        jar = self._middleware.jars[key]
        if key not in self._known:
            self._enter(key, jar)
        jar.jar.set_cookie(cookie)
        self._changed.pop(Place.of(key, cookie), None)

    def remove(self, place: Place) -> None:
        """Remove a cookie, if it is there, and do not count it as changed."""
        if place.jar in self._middleware.jars:
            jar = self._middleware.jars[place.jar].jar
            with suppress(KeyError):
                jar.clear(place.domain, place.path, place.name)
            self._changed.pop(place, None)

    def expire(self, place: Place) -> None:
        """Report that a stored cookie is gone."""
        self._changed[place] = None

    @property
    def changed(self) -> dict[Place, Cookie | None]:
        """Cookies that have changed, None for those that are gone."""
        self._follow_jars()
        return self._changed

    def written(self, changes: dict[Place, Cookie | None]) -> None:
        """Forget changes, unless the cookie has changed again."""
        for place, cookie in changes.items():
            if place in self._changed and self._changed[place] is cookie:
                del self._changed[place]


class _Watched(CookieJar):
    """A cookie jar that notes each change."""

    key: Any
    changes: dict[Place, Cookie | None]

    def set_cookie(self, cookie: Cookie) -> None:
        """Set a cookie."""
        super().set_cookie(cookie)
        self.changes[Place.of(self.key, cookie)] = cookie

    def clear(
        self,
        domain: str | None = None,
        path: str | None = None,
        name: str | None = None,
    ) -> None:
        """Remove all cookies, those of a domain or of a path, or a single cookie."""
        if name is not None:
            gone: list[Any] = [(domain, path, name)]
        else:
            gone = [
                (cookie.domain, cookie.path, cookie.name)
                for cookie in self
                if domain in (None, cookie.domain) and path in (None, cookie.path)
            ]
        super().clear(domain, path, name)
        self.changes.update((Place(self.key, *place), None) for place in gone)


def _inner(jar: Any) -> Any:
    """Return the jar of the standard library inside a jar of Scrapy."""
    inner = getattr(jar, "jar", None)
    if type(inner) not in (CookieJar, _Watched):
        raise _unknown("CookieJar.jar")
    return inner


_FIELDS = inspect.getfullargspec(Cookie)[0][1:]
"""What the constructor of a cookie takes; its attributes have the same names, but for
``rest``."""


def fields_of(cookie: Cookie) -> list[Any]:
    """Return what the constructor of a cookie takes to make it again."""
    names = ("_rest" if name == "rest" else name for name in _FIELDS)
    return [getattr(cookie, name) for name in names]


def _unknown(name: str) -> EngineError:
    return EngineError(f"the cookies middleware has no {name} as Scrapy's own has")
