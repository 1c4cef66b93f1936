"""RedisFilter: a Bloom filter that many processes share at once."""

from __future__ import annotations

import json
import secrets
from contextlib import closing
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import (
    SettingError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
)
from bloomdupe.filter import hashing
from bloomdupe.filter.contents import RECORD, FilterInfo, counts_of, say_grown
from bloomdupe.filter.sizing import Geometry
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client, LuaScript

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Self

    from bloomdupe.filter.parameters import Parameters

FORMAT = 1
MAX_BATCH = 1_000
"""Keys per script, which blocks Redis for some tens of milliseconds at most."""
KEYS, HEAD = (LuaScript(name, "bloomdupe.filter") for name in ("keys", "head"))


class Head:
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

    It is opened as a store is, see :class:`~bloomdupe.store.store.StorePlace`. It is as
    it was read last; other processes change it.
    """

    def __init__(self, client: Client) -> None:
        client.check(durable=False)
        self.client = client
        self.shown = client.address.shown
        self.key = client.address.head.encode()
        self.header: dict[str, Any] = {}
        self.made = ""
        self.counts: list[tuple[Geometry, int]] = []
        """Shape and number of keys of each layer, oldest first."""
        if fields := client.ask("HGETALL", self.key):
            self._take(fields)

    def refresh(self) -> None:
        """Go on with the head as it is now."""
        self._take(self.client.ask("HGETALL", self.key))

    def _take(self, fields: dict[bytes, bytes]) -> None:
        shown = self.shown
        if not fields:
            raise StoreError(
                f"{shown}: the filter is gone. It was deleted, or Redis was started"
                " without its data; restore them, or open the filter anew to begin an"
                " empty one"
            )
        if b"format" not in fields or b"header" not in fields:
            raise self.client.foreign()
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
            header, made = json.loads(fields[b"header"]), fields[b"made"].decode()
        except (KeyError, ValueError, TypeError) as error:
            raise StoreDamagedError(
                f"{shown}: the head of the filter is not as it was written ({error!r});"
                " restore the data of Redis from a backup"
            ) from error
        if self.header not in ({}, header):
            raise StoreMismatchError(
                f"{shown}: another filter has been made under this name since this one"
                " was opened; open it again"
            )
        self.header, self.made, self.counts = header, made, counts

    def change(
        self, verb: str, made: str, number: int, shape: Geometry, *words: str | int
    ) -> bool:
        """Begin a layer, which is the newest then; see ``head.lua`` for the verb.

        Nothing happens if another process has changed the head meanwhile. Returns
        whether it was done; the head is as it is now.
        """
        layer = (f"layer:{number}", json.dumps(shape._asdict()), f"keys:{number}", 0)
        done, found = self.client.run(
            HEAD,
            (self.key,),
            *(self.made, len(self.counts), verb),
            *("made", made, "layers", number + 1, *layer, *words),
        )
        self._take(dict(zip(found[::2], found[1::2], strict=True)))
        return bool(done)

    # As the place of a store

    def exists(self) -> bool:
        """Whether there is a filter of this name."""
        return bool(self.header)

    def open(self, *, readonly: bool) -> Head:
        """Return the head, which is open."""
        del readonly
        return self

    def create(self, records: dict[str, dict[str, Any]]) -> Head:
        """Make the filter, unless another process is quicker."""
        ((shape, _),) = counts_of(records[RECORD])
        header = json.dumps(records["store"])
        made = secrets.token_hex(4)
        self.change("", made, 0, shape, "format", FORMAT, "header", header)
        return self

    def room(self) -> tuple[int, str]:
        """Return how many bytes all data may take, and of what they are."""
        return self.client.memory, f"memory at {self.shown}"

    def close(self) -> None:
        """Close the connection. Closing again does nothing."""
        self.client.close()


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

    def __init__(self, parameters: Parameters, head: Head, *, readonly: bool) -> None:
        self.parameters = parameters
        self._head = head
        self._readonly = readonly
        self._closed = False

    def close(self) -> None:
        """Close the connection. Closing again does nothing."""
        self._closed = True
        self._head.close()

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
        head = self._opened(to_change=verb == b"add")
        some = iter(keys)
        while left := list(islice(some, MAX_BATCH)):
            while left:
                shapes = [shape for shape, _ in head.counts]
                batch, size = self._batch(left, shapes[-1].hashes)
                state, answers = head.client.run(
                    KEYS,
                    (head.key,),
                    *(verb, head.made, len(shapes), batch, size, shapes[-1].capacity),
                    *chain.from_iterable((one.blocks, one.hashes) for one in shapes),
                )
                if state == b"full":
                    self._grow(len(shapes))
                elif state == b"changed":
                    head.refresh()
                yield from (answer == ord("1") for answer in answers)
                left = left[len(answers) :]

    def _grow(self, number: int) -> None:
        """Add a layer, unless another process has just done so."""
        head, shape = self._head, self.parameters.geometry(number)
        if head.change("", head.made, number, shape):
            say_grown(self.parameters, head.counts)

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

    def _opened(self, *, to_change: bool = False) -> Head:
        if self._closed:
            raise StoreError("the filter is closed; open it again")
        if to_change and self._readonly:
            raise StoreError(f"{self._head.shown} was opened read-only")
        return self._head

    def clear(self) -> None:
        """Forget all keys, for all processes; parameters and secret key stay."""
        head, shape = self._opened(to_change=True), self.parameters.geometry(0)
        while not head.change("clear", secrets.token_hex(4), 0, shape):
            pass

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
        head = self._opened()
        head.refresh()
        return FilterInfo.of(head.shown, self.parameters, [head.counts])


def connected(url: str, *, exact: bool) -> closing[Client]:
    """Connect to the Redis of the filter that a URL names, see :class:`Address`."""
    address = Address.of(url)
    if exact:
        raise SettingError(
            f"exact: {address.shown} is on Redis, which keeps no key exactly; leave"
            " exact out"
        )
    return closing(Client(address, patience=0.0))
