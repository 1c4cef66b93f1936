"""Record: the head of a filter on Redis, checked when it is read."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import StoreDamagedError, StoreMismatchError
from bloomdupe.filter.sizing import Geometry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bloomdupe.filter.parameters import Parameters
    from bloomdupe.store.redis.address import Address

FORMAT = 1


class Record(NamedTuple):
    """The head of a filter, a hash of Redis at ``bloomdupe:{NAME}``.

    ``format``   1; other formats are refused
    ``header``   parameters, secret key and identity, as JSON
    ``made``     8 hex digits drawn when the filter is made or cleared
    ``layers``   number of layers
    ``layer:N``  :class:`~bloomdupe.filter.sizing.Geometry` of a layer, as JSON
    ``keys:N``   keys added to it

    A page is a string of 8,168 bytes at ``bloomdupe:{NAME}:MADE:LAYER:PAGE``, with the
    same bytes as in an LMDB store. Its name contains ``made`` so that the remains of an
    earlier filter are never taken for ours.
    """

    header: dict[str, Any]
    made: str
    layers: list[Geometry]
    keys: list[int]

    @classmethod
    def read(cls, fields: Mapping[bytes, bytes], address: Address) -> Record:
        """Read the fields of an existing head."""
        shown = address.shown
        if b"format" not in fields or b"header" not in fields:
            raise StoreMismatchError(
                f"{shown}: the key {address.head} holds something else than a filter of"
                " bloomdupe; take another name for the filter"
            )
        if fields[b"format"] != b"%d" % FORMAT:
            raise StoreMismatchError(
                f"{shown} has format {fields[b'format'].decode()}, this version of"
                f" bloomdupe reads format {FORMAT}; use the version that wrote it"
            )
        try:
            layers = range(int(fields[b"layers"]))
            return cls(
                json.loads(fields[b"header"]),
                fields[b"made"].decode(),
                [Geometry(**json.loads(fields[b"layer:%d" % n])) for n in layers],
                [int(fields[b"keys:%d" % n]) for n in layers],
            )
        except (KeyError, ValueError, TypeError) as error:
            raise StoreDamagedError(
                f"{shown}: the key {address.head} is not as it was written"
                f" ({error!r}); restore the data of Redis from a backup"
            ) from error

    @property
    def counts(self) -> list[tuple[Geometry, int]]:
        """Shape and number of keys of each layer, oldest first."""
        return list(zip(self.layers, self.keys, strict=True))


def new_mark() -> str:
    """Draw a mark that tells a filter from an earlier filter of the same name."""
    return secrets.token_hex(4)


def new_layer(parameters: Parameters, number: int) -> list[str | int]:
    """Return fields and values of a layer without keys, which is the newest."""
    shape = json.dumps(parameters.geometry(number)._asdict())
    return ["layers", number + 1, f"layer:{number}", shape, f"keys:{number}", 0]


def header_fields(parameters: Parameters, identity: dict[str, Any]) -> list[str | int]:
    """Return fields and values that describe a filter for ever."""
    header = json.dumps(parameters.header(identity))
    return ["format", FORMAT, "header", header]
