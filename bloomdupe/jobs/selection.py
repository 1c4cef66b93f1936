"""Selection: requests chosen by slot and pattern, or by their fingerprints.

The store knows requests by slot and order, not by fingerprint, so a search for
fingerprints reads all of them. A request without a text of a wanted page costs 1 µs,
any other request about 10. A search for few pages costs a fraction of that, because
it looks at many requests at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from w3lib.url import canonicalize_url

from bloomdupe.errors import SettingError, UnserializableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy import Request


@dataclass(frozen=True)
class Selection:
    """Selects the requests of a slot with URLs that match a pattern. None: any."""

    slot: str | None = None
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, slot: str | None, pattern: str | None) -> Selection:
        """Read a user's options; raises :class:`SettingError` if they are bad."""
        try:
            return cls(slot, None if pattern is None else re.compile(pattern))
        except (re.error, OverflowError, RecursionError) as error:
            raise SettingError(
                f"--pattern {pattern!r} is not a regular expression: {error}"
            ) from error

    @property
    def values(self) -> dict[str, str | None]:
        """The fields as plain types, for JSON."""
        pattern = None if self.pattern is None else self.pattern.pattern
        return {"slot": self.slot, "pattern": pattern}

    def has(self, slot: str, url: str) -> bool:
        """Whether a request is selected."""
        return self.slot in (None, slot) and (
            self.pattern is None or self.pattern.search(url) is not None
        )


FEW_PAGES = 5
"""Pages that are searched for by a text each."""
MOST_HOSTS = 100
"""Hosts in a single search expression, at most."""


class RequestReader(Protocol):
    """Reads stored requests, and knows their fingerprints."""

    @property
    def is_plain(self) -> bool:
        """Whether these are of canonical URLs, as those of Scrapy's fingerprinter."""

    def request_of(self, payload: bytes, /) -> Request:
        """Return a stored request; raises :class:`UnserializableError`."""

    def key_of(self, request: Request, /) -> tuple[bytes, bool]:
        """Return a request's fingerprint, and whether it must be kept exactly."""


class Search:
    """Finds pending requests for the pages that ``wanted`` has, by fingerprint."""

    def __init__(self, wanted: Mapping[bytes, str], keys: RequestReader) -> None:
        """``wanted`` has the URL of each fingerprint."""
        self._wanted = wanted
        self._keys = keys
        self.may_be: Callable[[bytes], object]
        """Whether some bytes of the store may hold a wanted request."""
        texts = []
        if len(wanted) <= FEW_PAGES and keys.is_plain:
            texts = [_text_in(url) for url in wanted.values()]
        if all(texts) and texts:
            self.may_be = lambda data: (
                b"%" in data or any(text in data for text in texts)
            )
        else:
            self.may_be = _hosts_in(wanted.values())

    def key_of(self, payload: bytes) -> bytes | None:
        """Return the fingerprint of a stored request that is wanted.

        None for any other request, and for a request that cannot be read: it stays in
        the store.
        """
        if not self.may_be(payload):
            return None
        try:
            key, _ = self._keys.key_of(self._keys.request_of(payload))
        except UnserializableError:
            return None
        return key if key in self._wanted else None


def _text_in(url: str) -> bytes:
    """Return a text that every stored URL of the page has, unless it has escapes.

    URLs with the same canonical form have the same segments of the path and the same
    fields, except for escapes and for segments of dots.
    """
    parts = urlsplit(canonicalize_url(url))
    pieces = [*parts.path.split("/"), *parts.query.split("&")]
    # An empty field need not have the "=" that is canonical.
    known = [piece.removesuffix("=") for piece in pieces if _unescaped(piece)]
    return max(known, key=len, default="").encode()


_unescaped = re.compile(r"[\w~=-][\w.~=-]*", re.ASCII).fullmatch


def _hosts_in(urls: Iterable[str]) -> Callable[[bytes], object]:
    """Return a function that searches bytes for the hosts of URLs."""
    hosts = {urlsplit(canonicalize_url(url)).hostname or "" for url in urls}
    # A usual beginning, with www., is stored as one character.
    texts = {re.escape(host.removeprefix("www.").encode()) for host in hosts}
    # An address has several spellings.
    named = all(re.search(rb"^[^:]*[a-z][^:]*$", text) for text in texts)
    if not named or len(texts) > MOST_HOSTS:
        return re.compile(b"").search
    host = rb"(?<![\w.-])(?:www\.)?(?:%b)(?![\w-])" % b"|".join(texts)
    return re.compile(host, re.IGNORECASE).search
