"""RedisFilter: a Bloom filter that many processes share at once."""

from __future__ import annotations

import json
import secrets
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import (
    SettingError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
)
from bloomdupe.filter import hashing
from bloomdupe.filter.contents import FilterInfo, say_grown
from bloomdupe.filter.sizing import Geometry
from bloomdupe.store.format import FORMAT, MAGIC, expect_format
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client, lua

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Self

    from bloomdupe.filter.parameters import Parameters

MAX_BATCH = 1_000
"""Keys per script, which blocks Redis for some tens of milliseconds at most."""
KEYS, CLEAR = (lua(name, "bloomdupe.filter") for name in ("keys", "clear"))


class Head:
    """The head of a filter, a hash of Redis at ``bloomdupe:{NAME}``.

    ``header``  parameters, secret key and identity, as JSON; and ``made``, 8 hex digits
                drawn when the filter is made or cleared
    ``layers``  :class:`~bloomdupe.filter.sizing.Geometry` of each layer, as JSON;
                missing before the first key
    ``keys:N``  keys added to layer N

    A block is a string of 8,168 bytes at ``bloomdupe:{NAME}:MADE:LAYER:BLOCK``; its
    bits are in the order of Redis. Its name contains ``made`` so that the remains of an
    earlier filter are never taken for ours.

    It is opened as a store is, see :class:`~bloomdupe.store.store.StorePlace`. It is as
    it was read last; other processes change it.
    """

    def __init__(self, client: Client) -> None:
        client.check(durable=False)
        self.client = client
        self.shown = client.address.shown
        self.key = client.address.head.encode()
        self.header: dict[str, Any] = {}
        self.texts = b"", b""
        """Header and layers as they stand in Redis."""
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
        if b"header" not in fields:
            raise self.client.foreign()
        texts = fields[b"header"], fields.get(b"layers", b"[]")
        try:
            header, layers = map(json.loads, texts)
            del header["made"]
            counts = [
                (Geometry(*shape), int(fields[b"keys:%d" % number]))
                for number, shape in enumerate(layers)
            ]
        except (KeyError, ValueError, TypeError) as error:
            raise StoreDamagedError(
                f"{shown}: the head of the filter is not as it was written ({error!r});"
                " restore the data of Redis from a backup"
            ) from error
        expect_format(shown, header)
        if self.header not in ({}, header):
            raise StoreMismatchError(
                f"{shown}: another filter has been made under this name since this one"
                " was opened; open it again"
            )
        if 1 <= len(self.counts) < len(counts):
            say_grown(header["fpp"], counts)
        self.header, self.texts, self.counts = header, texts, counts

    def clear(self) -> None:
        """Begin again without keys, for all processes."""
        header = _header(self.header)
        while not self.client.run(CLEAR, (self.key,), self.texts[0], header):
            self.refresh()
        self.refresh()

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
        header = _header({"magic": MAGIC, "format": FORMAT, **records["store"]})
        self.client.ask("HSETNX", self.key, "header", header)
        self.refresh()
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
                batch = self._batch(left, shapes[-1].hashes if shapes else 0)
                grown = json.dumps([*shapes, self.parameters.geometry(len(shapes))])
                arguments = (verb, *head.texts, grown, len(left), batch)
                answers = head.client.run(KEYS, (head.key,), *arguments)
                yield from (answer == ord("1") for answer in answers)
                left = left[len(answers) :]
                if left:
                    head.refresh()

    def _batch(self, keys: Sequence[bytes | str], hashes: int) -> bytes:
        """Return a record of each key: its block hash, 4 bytes, and its digests."""
        secret, further = self.parameters.key, hashing.further_digests(hashes)
        records = []
        for key in keys:
            text = key if type(key) is bytes else hashing.as_bytes(key)
            first = hashing.digest(secret + text)
            records.append(hashing.block_hash(first).to_bytes(4, "little"))
            records += (first, further(first))
        return b"".join(records)

    def _opened(self, *, to_change: bool = False) -> Head:
        if self._closed:
            raise StoreError("the filter is closed; open it again")
        if to_change and self._readonly:
            raise StoreError(f"{self._head.shown} was opened read-only")
        return self._head

    def clear(self) -> None:
        """Forget all keys, for all processes; parameters and secret key stay."""
        self._opened(to_change=True).clear()

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


def _header(header: dict[str, Any]) -> str:
    """Return a header with another ``made``, as JSON."""
    return json.dumps({**header, "made": secrets.token_hex(4)})


def connected(url: str, *, exact: bool) -> closing[Client]:
    """Connect to the Redis of the filter that a URL names, see :class:`Address`."""
    address = Address.of(url)
    if exact:
        raise SettingError(
            f"exact: {address.shown} is on Redis, which keeps no key exactly; leave"
            " exact out"
        )
    return closing(Client(address, patience=0.0))
