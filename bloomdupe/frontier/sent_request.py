"""SentRequest: a request on its way to the worker that has its partition.

Packed, it is a msgpack array of the fields, in their order. Workers send such requests
to each other, and ``bloomdupe add`` sends them to a crawl on Redis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import mmh3

from bloomdupe.store.format import delayed_rank, packed, stored_priority, unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTITIONS = 16
"""Partitions of a crawl with several workers."""


_KINDS: dict[str, type | tuple[type, ...]] = {
    "slot": str,
    "priority": int,
    "payload": bytes,
    "not_before": (int, float, type(None)),
    "host": (str, type(None)),
}
"""Types of fields that another worker, or a user, has sent."""


def partition_of(slot: str, partitions: int = PARTITIONS) -> int:
    """Return the partition of all requests of a slot."""
    number: int = mmh3.hash(slot.encode(errors="surrogatepass"), signed=False)
    return number % partitions


def host_of(url: str) -> str:
    """Return the host of a URL: its slot, unless the project names another."""
    return urlsplit(url).hostname or ""


class SentRequest(NamedTuple):
    """A request, with what its partition needs to know of it."""

    slot: str
    priority: int
    payload: bytes
    """Empty: there is no request, only its fingerprints are added."""
    keys: Sequence[tuple[bytes, bool]] = ()
    """Keys to mark as seen, its fingerprint first, and whether each is exact."""
    start: bool = False
    """Whether it is a start request."""
    not_before: float | None = None
    """Unix time before which it is not fetched."""
    dont_filter: bool = False
    """Whether it is made pending even if its fingerprint was seen."""
    form: bool = False
    """Whether it is the redirect of a form that was posted."""
    repeats: bool = False
    """Whether it is a retry, a redirect, a later visit or one of ``start()``, which
    always have room."""
    host: str | None = None
    """If its slot has another name: its host, whose partition checks and marks the
    keys."""
    added: bool = False
    """Whether a user has added it: it has room, too."""

    @property
    def home(self) -> str:
        """The slot whose partition it is sent to first: there its keys are known."""
        return self.slot if self.host is None else self.host

    @property
    def packed(self) -> bytes:
        """The entry of an inbox."""
        return packed(self._replace(priority=stored_priority(self.priority)))

    @classmethod
    def read(cls, entry: bytes) -> SentRequest:
        """Return the request that was packed; raises :class:`ValueError`."""
        try:
            fields = unpacked(entry)
            found = cls(*fields)
            keys = [(bytes(key), bool(exact)) for key, exact in found.keys]
            for field, kind in _KINDS.items():
                if not isinstance(getattr(found, field), kind):
                    raise TypeError(f"{field} has another type")
            delayed_rank(found.not_before or 0, 0)  # or it could not be stored
        except Exception as error:
            raise ValueError(f"it is no request: {error!r}") from error
        return found._replace(keys=keys)
