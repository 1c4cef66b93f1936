"""KnownUrls: recent URLs that were found to be seen, in bounded memory."""

from __future__ import annotations

from sys import getsizeof

MAX_BYTES = 8_000_000
"""Bytes that it may take: some 40,000 URLs of 70 characters."""


class KnownUrls:
    """A set of URLs that forgets URLs that were not asked for lately.

    Two halves: a URL goes into the young half when it is added and when it is found in
    the old half. When the young half is full, it becomes the old half, and the previous
    old half is forgotten. The set keeps the URLs themselves and no hashes, so a match
    is certain.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._half = max_bytes // 2
        self.clear()

    def __contains__(self, url: str) -> bool:
        if url in self.young:
            return True
        if url in self._old:
            self.add(url)
            return True
        return False

    def __len__(self) -> int:
        return len(self.young | self._old)

    def clear(self) -> None:
        """Forget all."""
        self.young: set[str] = set()
        """The young half; it answers faster than a look into both."""
        self._old: set[str] = set()
        self._text = 0

    def add(self, url: str) -> None:
        """Add a URL that is not in it."""
        young = self.young
        young.add(url)
        self._text += getsizeof(url)
        if self._text + getsizeof(young) > self._half:
            self._old = young
            self.young = set()
            self._text = 0
