"""Imports: what came into a shared frontier from elsewhere, and what was seen there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreError, StoreMismatchError
from bloomdupe.redis.redis_filter import RedisFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bloomdupe.filter.layer import Layer
    from bloomdupe.filter.parameters import Parameters
    from bloomdupe.redis.server import Server

__all__ = ["REMOVING", "WITHOUT_MARKS", "Imports"]

REMOVING = "removing"
"""In the note of an import: nothing comes, and all is being removed."""

WITHOUT_MARKS = (
    "--without-marks takes over the requests that wait alone, and then pages that are"
    " done there may be fetched again"
)


class Imports:
    """Whether an import goes on, and a filter of what was seen before it.

    A fingerprint does not say in which partition its request would wait. So those that
    come from elsewhere have one filter for all of the frontier, named
    ``NAME:elsewhere``, which is asked before a partition is. Nothing is added to it
    while workers are there: no import begins then, and no worker before it has ended.

    Fields of the frontier's head:

    ``imports``    how many have begun. A worker that knows of fewer is refused
    ``importing``  1, until the last one has ended
    ``import``     how far that is, as JSON
    """

    def __init__(self, server: Server) -> None:
        fields = server.fields()
        self._server = server
        self.number = int(fields.get(b"imports", 0))
        """How many have begun."""
        self._unfinished = b"importing" in fields
        self.note: dict[str, Any] = json.loads(fields.get(b"import", b"{}"))
        """How far the last one is, as whoever imports has said."""
        self._elsewhere = _elsewhere(server)
        self._seen: RedisFilter | None = None
        if self._elsewhere.fields():
            self._seen = RedisFilter.on(self._elsewhere, _NOT_GIVEN)

    def check_ended(self) -> None:
        """Refuse a frontier into which something is being imported."""
        if self._unfinished:
            raise self._refusal()

    def _refusal(self) -> StoreError:
        if REMOVING in self.note:
            return StoreError(
                f"{self._server.address.shown}: it is being removed. If that was"
                " interrupted, call `bloomdupe reset` again; or take another name"
            )
        return StoreError(
            f"{self._server.address.shown}: an import into it has not ended. Call it"
            " again, with the same source: it goes on where it was"
        )

    def changed(self) -> StoreError:
        """Return the error for a worker that was there before an import."""
        now = Imports(self._server)
        if now._unfinished:
            return now._refusal()
        return StoreError(
            f"{self._server.address.shown}: something was imported into it since this"
            " worker began, which does not know what was seen there; start it again"
        )

    # For workers

    def knows(self, keys: Sequence[bytes | None]) -> list[bool]:
        """Say of each key whether it was seen elsewhere; None was not."""
        if self._seen is None:
            return [False] * len(keys)
        answers = iter(self._seen.contains_many(key for key in keys if key is not None))
        return [key is not None and next(answers) for key in keys]

    # For an import

    def begin(self, note: dict[str, Any]) -> None:
        """Begin to import, or go on.

        Raises :class:`~bloomdupe.errors.StoreError` while workers are there.
        """
        number = self._server.run("import", "begin", json.dumps(note))
        if number < 0:
            why = "do not know what is being imported"
            if REMOVING in note:
                why = "would lose what they work on"
            raise StoreError(
                f"{self._server.address.shown}: {-number} workers are there, which"
                f" {why}. Stop them (Ctrl-C once each); one that was killed is gone"
                " when BLOOMDUPE_REDIS_LEASE has run out"
            )
        self.number = number

    def keep(self, note: dict[str, Any], *, end: bool = False) -> None:
        """Say how far it is; at its ``end``, let workers come.

        Raises :class:`~bloomdupe.errors.StoreError` if another import has begun.
        """
        step = "end" if end else "keep"
        if not self._server.run("import", step, json.dumps(note), self.number):
            raise StoreError(
                f"{self._server.address.shown}: another import into it has begun"
                " meanwhile, and this one ends here. What it has taken in stays"
            )

    @property
    def seen(self) -> RedisFilter | None:
        """The filter of what was seen elsewhere, if anything was."""
        return self._seen

    def mark(self, keys: Sequence[bytes], parameters: Parameters) -> None:
        """Let keys count as seen; a filter of these ``parameters`` is made for them."""
        self._seen_or_made(parameters).update(keys)

    def merge(self, layers: Iterable[Layers], parameters: Parameters) -> None:
        """Let all count as seen that is in layers of a filter with ``parameters``."""
        self._seen_or_made(parameters).unite(layers)

    def _seen_or_made(self, parameters: Parameters) -> RedisFilter:
        if self._seen is None:
            self._seen = RedisFilter.on(self._elsewhere, vars(parameters))
        return self._seen

    def check_merge(self, theirs: Parameters) -> None:
        """Refuse a filter that cannot be joined with what was imported before."""
        if theirs.confirm:
            raise StoreMismatchError(
                f"{self._server.address.shown}: what comes keeps keys exactly (confirm"
                f" = {theirs.confirm:g}), and a filter on Redis keeps none;"
                f" {WITHOUT_MARKS}",
                "confirm",
            )
        if self._seen is not None and self._seen.parameters != theirs:
            raise StoreMismatchError(
                f"{self._server.address.shown}: what was imported before has a filter"
                " with other parameters, or another secret key. Import into a crawl"
                f" of another name; or {WITHOUT_MARKS}"
            )


Layers = tuple[int, "Layer", int]
"""Number of a layer, the layer, number of keys in it."""
_NOT_GIVEN: dict[str, Any] = dict.fromkeys(("capacity", "fpp", "confirm", "key"))


def _elsewhere(server: Server) -> Server:
    address = server.address
    return server.at(
        address._replace(
            name=f"{address.name}:elsewhere", shown=f"{address.shown}:elsewhere"
        )
    )
