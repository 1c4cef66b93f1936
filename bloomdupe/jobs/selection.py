"""Selection: requests chosen by slot and pattern, or by their fingerprints.

The store knows requests by slot and order, not by fingerprint, so a search for
fingerprints reads all of them. A request without any of the wanted hosts costs 1 µs,
any other request about 10.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bloomdupe.errors import SettingError, UnserializableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy import Request

    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.jobs.project import Project

__all__ = ["Selection", "find"]


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

    def has(self, slot: str, url: str) -> bool:
        """Whether a request is selected."""
        return self.slot in (None, slot) and (
            self.pattern is None or self.pattern.search(url) is not None
        )


MOST_HOSTS = 100
"""Hosts in a single search expression, at most."""


def find(
    pending: Iterable[PendingRequest], wanted: Collection[Request], project: Project
) -> Iterator[tuple[bytes, PendingRequest]]:
    """Yield each pending request that matches a wanted request, and its key.

    A request that cannot be read is left out: it stays in the store.
    """
    keys = {project.key_of(request)[0] for request in wanted}
    hosts = {urlsplit(request.url).hostname or "" for request in wanted}
    # A usual beginning, with www., is stored as one character.
    texts = {re.escape(host.removeprefix("www.").encode()) for host in hosts}
    everything = len(texts) > MOST_HOSTS or b"" in texts
    host = rb"(?<![\w.-])(?:www\.)?(?:%b)(?![\w-])" % b"|".join(texts)
    may_be = re.compile(b"" if everything else host, re.IGNORECASE).search
    for one in pending:
        if may_be(one.payload):
            try:
                key, _ = project.key_of(project.request_of(one.payload))
            except UnserializableError:
                continue
            if key in keys:
                yield key, one
