"""RedisFilter: a Bloom filter that many processes share at once."""

from __future__ import annotations

import json
import secrets
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import (
    SettingError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
)
from bloomdupe.filter import hashing
from bloomdupe.filter.contents import FilterInfo, say_grown
from bloomdupe.filter.parameters import Parameters, held_against
from bloomdupe.filter.sizing import Geometry
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client, LuaScript

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Self

FORMAT = 1
MAX_BATCH = 1_000
"""Keys per script, which blocks Redis for some tens of milliseconds at most."""
KEYS, HEAD = (LuaScript(name, "bloomdupe.filter") for name in ("keys", "head"))


class Head(NamedTuple):
    """The head of a filter, a hash of Redis at ``bloomdupe:{NAME}``.

    ``format``   1; other formats are refused
    ``header``   parameters, secret key and identity, as JSON
    ``made``     8 hex digits drawn when the filter is made or cleared
    ``layers``   number of layers
    ``layer:N``  :class:`~bloomdupe.filter.sizing.Geometry` of a layer, as JSON
    ``keys:N``   keys added to it

    A block is a string of 8,168 bytes at ``bloomdupe:{NAME}:MADE:LAYER:BLOCK``, with
    the same bytes as in an LMDB store. Its name contains ``made`` so that the remains
    of an earlier filter are never taken for ours.
    """

    header: dict[str, Any]
    made: str
    counts: list[tuple[Geometry, int]]
    """Shape and number of keys of each layer, oldest first."""

    @classmethod
    def read(cls, fields: dict[bytes, bytes], client: Client) -> Head:
        """Read the fields of an existing head."""
        shown = client.address.shown
        if b"format" not in fields or b"header" not in fields:
            raise client.foreign()
        if fields[b"format"] != b"%d" % FORMAT:
            raise StoreMismatchError(
                f"{shown} has format {fields[b'format'].decode()}, this version of"
                f" bloomdupe reads format {FORMAT}; use the version that wrote it"
            )
        try:
            counts = [
                (
                    Geometry(**json.loads(fields[b"layer:%d" % number])),
                    int(fields[b"keys:%d" % number]),
                )
                for number in range(int(fields[b"layers"]))
            ]
            return cls(json.loads(fields[b"header"]), fields[b"made"].decode(), counts)
        except (KeyError, ValueError, TypeError) as error:
            raise StoreDamagedError(
                f"{shown}: the head of the filter is not as it was written ({error!r});"
                " restore the data of Redis from a backup"
            ) from error


class RedisFilter:
    """A Bloom filter with its blocks in Redis; it has verbs of `bloomdupe.BloomFilter`.

    Many processes may open it at once, on many machines. Even if several add a key at
    the same time, it is called new once at most, and the filter grows once. :meth:`add`
    and ``in`` take a round trip each; :meth:`update`, :meth:`add_many` and
    :meth:`contains_many` take one round trip for a thousand keys. Added keys are in
    Redis when the call returns; its settings decide how durable they are there.

    All verbs raise :class:`~bloomdupe.errors.StoreUnreachableError` while the server is
    away; the same object works again afterwards.
    """

    def __init__(self, client: Client, head: Head, *, readonly: bool) -> None:
        self.parameters = Parameters.from_header(head.header, client.address.shown)
        self._client: Client | None = client
        self._head = head
        self._readonly = readonly

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        given: dict[str, Any],
        identity: dict[str, Any],
        *,
        readonly: bool = False,
    ) -> Self:
        """Open the filter that the URL ``path`` names, or create it there.

        See :class:`~bloomdupe.store.redis.address.Address` for the URL, and
        :meth:`bloomdupe.BloomFilter.open` for the parameters that are ``given``.
        """
        address = Address.of(str(path))
        shown = address.shown
        asked = Parameters.asked(given)
        if asked.exact:
            raise SettingError(
                f"exact: {shown} is on Redis, which keeps no key exactly; leave exact"
                " out"
            )
        with ExitStack() as undo:
            client = Client(address, patience=0.0)
            undo.callback(client.close)
            client.check(durable=False)
            fields = client.ask("HGETALL", address.head)
            if not fields:
                if readonly or given["capacity"] is None:
                    raise StoreError(
                        f"{shown}: there is no filter of this name"
                        + ("" if readonly else "; give a capacity to create one")
                    )
                asked.check_room(client.memory, f"memory at {shown}")
                header = json.dumps(asked.header(identity))
                words = ("format", FORMAT, "header", header, *_new_layer(asked, 0))
                _, fields = _changed(client, "", "", "", secrets.token_hex(4), *words)
            head = Head.read(fields, client)
            held_against(shown, head.header, asked, given, identity)
            undo.pop_all()
        return cls(client, head, readonly=readonly)

    def close(self) -> None:
        """Close the connection. Closing again does nothing."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Adding and asking

    def add(self, key: bytes | str) -> bool:
        """Add a key; True if it was certainly new, False if maybe seen before."""
        return self.add_many([key])[0]

    def update(self, keys: Iterable[bytes | str]) -> int:
        """Add all keys; return how many were new.

        They go to Redis in portions of a thousand. If a portion fails (a key of a wrong
        type, a server that is away), the portions before it have been added.
        """
        return self.add_many(keys).count(True)

    def add_many(self, keys: Iterable[bytes | str]) -> list[bool]:
        """Add all keys, like :meth:`update`; say of each whether it was new."""
        return list(self._answers(b"add", keys))

    def contains(self, key: bytes | str) -> bool:
        """Whether the key is maybe in the filter; False is certain."""
        return self.contains_many([key])[0]

    __contains__ = contains

    def contains_many(self, keys: Iterable[bytes | str]) -> list[bool]:
        """Say of each key whether it is maybe in the filter."""
        return list(self._answers(b"ask", keys))

    def _answers(self, verb: bytes, keys: Iterable[bytes | str]) -> Iterator[bool]:
        """Add keys or ask for them; yield the answer to each key."""
        client = self._open(to_change=verb == b"add")
        some = iter(keys)
        while left := list(islice(some, MAX_BATCH)):
            while left:
                shapes = [shape for shape, _ in self._head.counts]
                batch, size = self._batch(left, shapes[-1].hashes)
                state, answers = client.run(
                    KEYS,
                    (client.address.head.encode(),),
                    verb,
                    self._head.made,
                    len(shapes),
                    batch,
                    size,
                    shapes[-1].capacity,
                    *(
                        part
                        for shape in shapes
                        for part in (shape.blocks, shape.hashes)
                    ),
                )
                if state == b"full":
                    self._add_layer()
                elif state == b"changed":
                    self._refresh()
                yield from (answer == ord("1") for answer in answers)
                left = left[len(answers) :]

    def _batch(self, keys: Sequence[bytes | str], hashes: int) -> tuple[bytes, int]:
        """Return the records of keys for the scripts, and the bytes of a record.

        A record is the block hash, 4 bytes, and the fields of the digests.
        """
        secret = self.parameters.key
        records = []
        for key in keys:
            text = key if type(key) is bytes else hashing.as_bytes(key)
            first = hashing.digest(secret + text)
            records.append(hashing.block_hash(first).to_bytes(4, "little"))
            records.append(hashing.chain(first, hashes))
        batch = b"".join(records)
        size = len(batch) // len(keys)
        # Redis counts the bits of a byte from the highest, the blocks from the lowest:
        # bit 0 of a block is bit 7 for Redis. One operation flips all positions.
        flip = (bytes(4) + b"\7\0" * ((size - 4) // 2)) * len(keys)
        flipped = int.from_bytes(batch, "little") ^ int.from_bytes(flip, "little")
        return flipped.to_bytes(len(batch), "little"), size

    def _open(self, *, to_change: bool = False) -> Client:
        if self._client is None:
            raise StoreError("the filter is closed; open it again")
        if to_change and self._readonly:
            raise StoreError(f"{self._client.address.shown} was opened read-only")
        return self._client

    # Its head

    def _refresh(self) -> None:
        """Go on with the head as it is now."""
        client = self._open()
        self._take(client.ask("HGETALL", client.address.head))

    def _add_layer(self) -> None:
        """Add a layer, unless another process has just done so."""
        made, number = self._head.made, len(self._head.counts)
        words = _new_layer(self.parameters, number)
        added, fields = _changed(self._open(), made, number, "", made, *words)
        self._take(fields)
        if added:
            say_grown(self.parameters, self._head.counts)

    def _take(self, fields: dict[bytes, bytes]) -> None:
        """Go on with the head as it is now; another process may have changed it."""
        client = self._open()
        shown = client.address.shown
        if not fields:
            raise StoreError(
                f"{shown}: the filter is gone. It was deleted, or Redis was started"
                " without its data; restore them, or open the filter anew to begin an"
                " empty one"
            )
        head = Head.read(fields, client)
        if head.header != self._head.header:
            raise StoreMismatchError(
                f"{shown}: another filter has been made under this name since this one"
                " was opened; open it again"
            )
        self._head = head

    def clear(self) -> None:
        """Forget all keys, for all processes; parameters and secret key stay."""
        client = self._open(to_change=True)
        words = _new_layer(self.parameters, 0)
        done = False
        while not done:
            made, layers = self._head.made, len(self._head.counts)
            mark = secrets.token_hex(4)
            done, fields = _changed(client, made, layers, "clear", mark, *words)
            self._take(fields)

    def __len__(self) -> int:
        """Count the keys that were new when added."""
        return self.info().keys

    @property
    def identity(self) -> dict[str, Any]:
        """The identity that the creator of the filter has given to it."""
        return dict(self._head.header["identity"])

    def info(self) -> FilterInfo:
        """Return the given, counted and calculated figures; no block is read.

        The memory and the disk of Redis are not included.
        """
        self._refresh()
        shown = self._open().address.shown
        return FilterInfo.of(shown, self.parameters, [self._head.counts])


def _changed(
    client: Client,
    made: str,
    layers: int | str,
    verb: str,
    mark: str,
    *words: str | int,
) -> tuple[bool, dict[bytes, bytes]]:
    """Change the head of a filter if it is as expected; see ``head.lua``.

    Its ``made`` is ``mark`` then. Returns whether it was, and the fields now.
    """
    head = client.address.head.encode()
    done, found = client.run(HEAD, (head,), made, layers, verb, "made", mark, *words)
    return bool(done), dict(zip(found[::2], found[1::2], strict=True))


def _new_layer(parameters: Parameters, number: int) -> list[str | int]:
    """Return fields and values of a layer without keys, which is the newest."""
    shape = json.dumps(parameters.geometry(number)._asdict())
    return ["layers", number + 1, f"layer:{number}", shape, f"keys:{number}", 0]
