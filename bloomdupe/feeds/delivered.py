"""Delivered: the record of what storages have accepted, a file beside the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.errors import FeedError
from bloomdupe.store.files import make_directory, read_json, write_json

if TYPE_CHECKING:
    from bloomdupe.feeds.journal import Journal


class Delivered:
    """What is delivered of the items in a journal.

    It is no part of the store, because a storage answers when the store is closed. For
    each feed, by name:

    ``journal``  turn of the journal
    ``begin``    position in it at which the delivered round begins
    ``end``      position up to which the items are delivered
    ``batch``    number of the next batch
    ``time``     when a batch has begun that is not complete; for its name
    ``target``   of a local file, see :class:`~bloomdupe.feeds.target.Target`; of a
                 batch only until it is complete
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._place = journal.place.with_name("delivered")

    def get(self, name: str, begin: int) -> dict[str, Any]:
        """Return the record of a feed whose round begins there."""
        new = {"journal": self._journal.turn, "begin": begin, "end": begin, "batch": 1}
        found: dict[str, Any] = self._read().get(name, new)
        same = all(found[key] == new[key] for key in ("journal", "begin"))
        return found if same else new

    def lacks(self, index: int, record: dict[str, Any]) -> bool:
        """Whether a feed with this record and index lacks items of the journal."""
        return any(True for _ in self._journal.items(index, record["end"]))

    def put(self, name: str, record: dict[str, Any]) -> None:
        """Set the record of a feed, durably."""
        make_directory(self._place.parent, 0o700)
        write_json(self._place, {**self._read(), name: record})

    def _read(self) -> dict[str, Any]:
        try:
            return read_json(self._place) or {}
        except (OSError, ValueError) as error:
            raise FeedError(
                f"{self._place}, which says what is delivered, cannot be read: {error}."
                " Put it back from a backup; without it all is delivered again"
            ) from error
