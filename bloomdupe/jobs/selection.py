"""Selection: requests chosen by slot and pattern, or by their fingerprints.

The store knows requests by slot and order, not by fingerprint, so a search for
fingerprints reads all of them. A fingerprint takes about 10 µs, and so it is made only
of requests that may be wanted, if few pages are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from w3lib.url import canonicalize_url

from bloomdupe.errors import SettingError, UnserializableError
from bloomdupe.requests.layout import summary_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bloomdupe.jobs.project import Project


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

    def has_stored(self, slot: str, payload: bytes) -> bool:
        """Whether a stored request is selected; one that is damaged has no URL."""
        if self.pattern is None:
            return self.slot in (None, slot)
        try:
            return self.has(slot, summary_of(payload).url)
        except UnserializableError:
            return False


FEW_PAGES = 50
"""Pages that are searched for by a text each."""


class Search:
    """Finds pending requests for pages.

    ``wanted`` has the URL of each fingerprint; the ``project`` makes fingerprints.
    """

    def __init__(self, wanted: Mapping[bytes, str], project: Project) -> None:
        self._wanted = wanted
        self._project = project
        self._texts = [b""]
        if len(wanted) <= FEW_PAGES and project.is_plain:
            self._texts = [_text_in(url) for url in wanted.values()]

    def may_be(self, payload: bytes) -> bool:
        """Whether a stored request may be wanted: escapes hide what it is."""
        return b"%" in payload or any(text in payload for text in self._texts)

    def key_of(self, payload: bytes) -> bytes | None:
        """Return the fingerprint of a stored request that is wanted.

        None for any other request, and for a request that cannot be read: it stays in
        the store.
        """
        if not self.may_be(payload):
            return None
        try:
            key, _ = self._project.key_of(self._project.request_of(payload))
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
