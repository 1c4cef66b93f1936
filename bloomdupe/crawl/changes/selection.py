"""Selection: requests chosen by slot and pattern, or by their fingerprints.

The store knows requests by slot and order, not by fingerprint, so a search for
fingerprints reads all of them. A request without any of the wanted hosts costs 1 µs,
any other request about 10.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from bloomdupe.errors import SettingError, UnserializableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Request

    from bloomdupe.frontier.pending_requests import PendingRequest


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


MOST_HOSTS = 100
"""Hosts in a single search expression, at most."""


class RequestReader(Protocol):
    """Reads stored requests, and knows their fingerprints."""

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
        hosts = {urlsplit(url).hostname or "" for url in wanted.values()}
        # A usual beginning, with www., is stored as one character.
        texts = {re.escape(host.removeprefix("www.").encode()) for host in hosts}
        everything = len(texts) > MOST_HOSTS or b"" in texts
        host = rb"(?<![\w.-])(?:www\.)?(?:%b)(?![\w-])" % b"|".join(texts)
        self._may_be = re.compile(b"" if everything else host, re.IGNORECASE).search

    def key_of(self, one: PendingRequest) -> bytes | None:
        """Return the fingerprint of a request that is wanted.

        None for any other request, and for a request that cannot be read: it stays in
        the store.
        """
        if not self._may_be(one.payload):
            return None
        try:
            key, _ = self._keys.key_of(self._keys.request_of(one.payload))
        except UnserializableError:
            return None
        return key if key in self._wanted else None
