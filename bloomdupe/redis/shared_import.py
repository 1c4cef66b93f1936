"""Imports: requests and seen keys that came into a shared frontier from elsewhere."""

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
"""In the note of an import: nothing is imported, and the frontier is being removed."""

WITHOUT_MARKS = (
    "--without-marks imports only the pending requests, and then pages that are done"
    " there may be fetched again"
)


class Imports:
    """The state of an import, and a filter of the keys seen elsewhere.

    A fingerprint does not determine the partition of its request. So the imported
    fingerprints have one filter for the whole frontier, ``{NAME}:elsewhere``, which is
    asked before the partition. It does not change while workers are running: no
    import begins then, and no worker starts before the import has ended.

    Fields of the frontier's head:

    ``imports``    number of imports that have begun, counted from a random number. So
                   it differs, too, if the frontier was removed, and begun anew under
                   the same name. A worker that knows another number is refused
    ``importing``  1 until the last import has ended
    ``import``     progress of the last import, as JSON
    """

    def __init__(self, server: Server) -> None:
        fields = server.fields()
        self._server = server
        self.number = int(fields.get(b"imports", 0))
        """Number of imports that have begun, counted from a random number."""
        self._unfinished = b"importing" in fields
        self.note: dict[str, Any] = json.loads(fields.get(b"import", b"{}"))
        """Progress of the last import, as noted by the import itself."""
        self._elsewhere = server.at(server.address.extended(":elsewhere"))
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
            f"{self._server.address.shown}: an import into it has begun since this"
            " worker began, which does not know the imported URLs; start it again"
        )

    # For workers

    def knows(self, keys: Sequence[bytes | None]) -> list[bool]:
        """Return for each key whether it was seen elsewhere; a key None was not."""
        if self._seen is None:
            return [False] * len(keys)
        asked = (key for key in keys if key is not None)
        answers = iter(self._seen.contains_many(asked))
        return [key is not None and next(answers) for key in keys]

    # For an import

    def begin(self, note: dict[str, Any]) -> None:
        """Begin an import, or continue it.

        Raises :class:`~bloomdupe.errors.StoreError` while workers are running.
        """
        step = "remove" if REMOVING in note else "begin"
        number = self._server.run("import", step, json.dumps(note))
        if number < 0:
            reason = "do not know the imported URLs"
            if REMOVING in note:
                reason = "would lose their requests in progress"
            raise StoreError(
                f"{self._server.address.shown}: workers are there ({-number}), which"
                f" {reason}. Stop them (Ctrl-C once each); a killed worker is gone"
                " when BLOOMDUPE_REDIS_LEASE has run out"
            )
        self.number = number

    def keep(self, note: dict[str, Any], *, end: bool = False) -> None:
        """Store the progress of the import; at its ``end``, admit workers again.

        Raises :class:`~bloomdupe.errors.StoreError` if another import has begun.
        """
        step = "end" if end else "keep"
        if not self._server.run("import", step, json.dumps(note), self.number):
            raise StoreError(
                f"{self._server.address.shown}: another import into it has begun"
                " meanwhile, and this import ends here. The requests that it added stay"
            )

    @property
    def seen(self) -> RedisFilter | None:
        """The filter of the keys seen elsewhere, or None if there are no such keys."""
        return self._seen

    def mark(self, keys: Sequence[bytes], parameters: Parameters) -> None:
        """Mark keys as seen; creates a filter with ``parameters`` if needed."""
        self._seen_or_made(parameters).update(keys)

    def merge(self, layers: Iterable[Layers], parameters: Parameters) -> None:
        """Mark all keys of layers, of a filter with these ``parameters``, as seen."""
        self._seen_or_made(parameters).unite(layers)

    def _seen_or_made(self, parameters: Parameters) -> RedisFilter:
        if self._seen is None:
            self._seen = RedisFilter.on(self._elsewhere, vars(parameters))
        return self._seen

    def check_merge(self, theirs: Parameters) -> None:
        """Refuse a filter that cannot be merged with the keys imported before."""
        if self._seen is not None and self._seen.parameters != theirs:
            raise StoreMismatchError(
                f"{self._server.address.shown}: the filter imported before has"
                " other parameters, or another secret key. Import into a crawl"
                f" of another name; or {WITHOUT_MARKS}"
            )


Layers = tuple[int, "Layer", int]
"""The number of a layer, the layer, and the number of its keys."""
_NOT_GIVEN: dict[str, Any] = dict.fromkeys(("capacity", "fpp", "exact", "key"))
