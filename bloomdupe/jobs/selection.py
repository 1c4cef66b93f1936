"""Selection: requests chosen by slot and pattern, or by their fingerprints.

The store knows requests by slot and order, not by fingerprint, so a search for
fingerprints reads all of them. A request without any of the wanted hosts costs 1 µs,
any other request about 10. A search for few pages costs a fraction of that, because
it looks at many requests at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote_to_bytes, urlsplit

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
"""Pages that are searched for one by one."""
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
        if len(wanted) <= FEW_PAGES:
            texts = [_Texts(url, plain=keys.is_plain) for url in wanted.values()]
            self.may_be = lambda data: any(one.are_in(data) for one in texts)
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


def _hosts_in(urls: Iterable[str]) -> Callable[[bytes], object]:
    """Return a function that searches bytes for the hosts of URLs."""
    hosts = {urlsplit(url).hostname or "" for url in urls}
    # A usual beginning, with www., is stored as one character.
    texts = {re.escape(host.removeprefix("www.").encode()) for host in hosts}
    everything = len(texts) > MOST_HOSTS or b"" in texts
    host = rb"(?<![\w.-])(?:www\.)?(?:%b)(?![\w-])" % b"|".join(texts)
    return re.compile(b"" if everything else host, re.IGNORECASE).search


class _Texts:
    """Texts in all stored requests for a page: its host, and more of a plain URL.

    URLs with the same canonical form have the same path and the same fields, except
    for escapes and for segments of dots.
    """

    def __init__(self, url: str, *, plain: bool) -> None:
        parts = urlsplit(canonicalize_url(url) if plain else url)
        host = re.escape((parts.hostname or "").removeprefix("www.").encode())
        # It begins with the host itself, which is fast.
        pattern = rb"%b(?:(?<![\w.-]%b)|(?<=www\.%b))(?![\w-])" % (host, host, host)
        # An address has several spellings.
        named = re.search(rb"^[^:]*[a-z][^:]*$", host) is not None
        self._host = re.compile(pattern if named else b"").search
        fields = parts.query.split("&") if plain else []
        self._whole = _texts([parts.path, *fields] if plain else [])
        self._pieces = _texts([*parts.path.split("/"), *fields] if plain else [])

    def are_in(self, data: bytes) -> bool:
        """Whether all of them are in some bytes, perhaps of several requests."""
        escaped = bool(self._pieces) and b"%" in data
        return self._all_in(data) or (escaped and self._all_in(unquote_to_bytes(data)))

    def _all_in(self, data: bytes) -> bool:
        # The pieces come first: a rare one is found missing at 0.3 ns a byte, and a
        # search for two common characters costs 0.9.
        return (
            all(text in data for text in self._pieces)
            and (all(text in data for text in self._whole) or b"/." in data)
            and self._host(data.lower()) is not None
        )


def _texts(parts: list[str]) -> list[bytes]:
    """Return the parts that have one spelling only, the longest first."""
    # An empty field need not have the "=" that is canonical.
    known = [part.removesuffix("=") for part in parts if _unescaped(part)]
    texts = {part.encode() for part in known}
    return sorted(texts - {b"", b"/"}, key=len, reverse=True)


_unescaped = re.compile(r"[\w./~=-]*", re.ASCII).fullmatch
