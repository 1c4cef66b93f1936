"""Remembered: what the spider of a worker remembers, as of its last commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Remembered(Participant):
    """Keeps ``spider.state`` and the attributes of the spider.

    Only those of the leader are stored. Another worker keeps its own in memory: after a
    refused commit it goes back to them. So a page that it fetches again finds the
    spider as it was before.
    """

    def __init__(
        self,
        some: Sequence[Participant],
        leads: Callable[[], bool],
        blobs: dict[str, bytes],
    ) -> None:
        self._some = some
        self._leads = leads
        self.blobs = blobs
        """Values by name, as of the last commit."""

    @property
    def changed(self) -> bool:
        """Whether it is a reason for a checkpoint."""
        return any(one.changed for one in self._some)

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        parts = [one.prepare() for one in self._some]
        blobs = dict(self.blobs)
        gone: list[str] = []
        for part in parts:
            blobs |= part.blobs
            gone += part.gone
        for name in gone:
            blobs.pop(name, None)

        def done() -> None:
            self.blobs = blobs
            for part in parts:
                part.done()

        if not self._leads():
            return Part(done=done)
        # All of them: it may have become the leader just now.
        return Part(blobs=blobs, gone=tuple(gone), done=done)
