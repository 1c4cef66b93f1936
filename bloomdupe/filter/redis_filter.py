"""RedisFilter: a Bloom filter that many processes share at once."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import SettingError, StoreError, StoreMismatchError
from bloomdupe.filter import hashing
from bloomdupe.filter.contents import say_grown
from bloomdupe.filter.info import FilterInfo
from bloomdupe.filter.opening import held_against
from bloomdupe.filter.parameters import Parameters
from bloomdupe.filter.redis_record import Record, header_fields, new_layer, new_mark
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client, LuaScript

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Self


MAX_BATCH = 1_000
"""Keys per script, which blocks Redis for some tens of milliseconds at most."""
KEYS, HEAD = (LuaScript(name, "bloomdupe.filter") for name in ("keys", "head"))


class RedisFilter:
    """A Bloom filter with its pages in Redis; it has verbs of `bloomdupe.BloomFilter`.

    Many processes may open it at once, on many machines. Even if several add a key at
    the same time, it is called new once at most, and the filter grows once. :meth:`add`
    and ``in`` take a round trip each; :meth:`update`, :meth:`add_many` and
    :meth:`contains_many` take one round trip for a thousand keys. Added keys are in
    Redis when the call returns; its settings decide how durable they are there.

    All verbs raise :class:`~bloomdupe.errors.StoreUnreachableError` while the server is
    away; the same object works again afterwards.
    """

    def __init__(self, client: Client, record: Record, *, readonly: bool) -> None:
        self.parameters = Parameters.from_header(record.header, client.address.shown)
        self._client: Client | None = client
        self._record = record
        self._readonly = readonly

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        capacity: int | None = None,
        fpp: float | None = None,
        *,
        exact: bool | None = None,
        key: bytes | None = None,
        identity: dict[str, Any] | None = None,
        readonly: bool = False,
    ) -> Self:
        """Open the filter that the URL ``path`` names, or create it there.

        See :class:`~bloomdupe.store.redis.address.Address` for the URL, and
        :meth:`bloomdupe.BloomFilter.open` for everything else. ``exact`` is refused.
        """
        address = Address.of(str(path))
        shown, identity = address.shown, identity or {}
        given = {"capacity": capacity, "fpp": fpp, "exact": exact, "key": key}
        asked = Parameters.checked(
            **{**given, "capacity": 1 if capacity is None else capacity}
        )
        if asked.exact:
            raise SettingError(
                f"exact: {shown} is on Redis, which keeps no key exactly; leave exact"
                " out"
            )
        with ExitStack() as undo:
            client = Client(address, patience=0.0)
            undo.callback(client.close)
            client.check_eviction()
            fields = fields_of(client)
            if not fields:
                if readonly or capacity is None:
                    raise StoreError(
                        f"{shown}: there is no filter of this name"
                        + ("" if readonly else "; give a capacity to create one")
                    )
                asked.check_room(client.memory, f"memory at {shown}")
                words = (*header_fields(asked, identity), *new_layer(asked, 0))
                _, fields = changed(client, "", "", "", new_mark(), *words)
            record = Record.read(fields, address)
            held_against(shown, record.header, asked, given, identity)
            undo.pop_all()
        return cls(client, record, readonly=readonly)

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
        return self._each(b"add", [key]) == b"1"

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
        return self._each(b"ask", [key]) == b"1"

    __contains__ = contains

    def contains_many(self, keys: Iterable[bytes | str]) -> list[bool]:
        """Say of each key whether it is maybe in the filter."""
        return list(self._answers(b"ask", keys))

    def _answers(self, verb: bytes, keys: Iterable[bytes | str]) -> Iterator[bool]:
        some = iter(keys)
        while portion := list(islice(some, MAX_BATCH)):
            for answer in self._each(verb, portion):
                yield answer == ord("1")

    def _each(self, verb: bytes, keys: Sequence[bytes | str]) -> bytes:
        """Add keys or ask for them; return the answer to each key, a digit."""
        client = self._open(to_change=verb == b"add")
        answers = b""
        while len(answers) < len(keys):
            shapes = self._record.layers
            batch, size = self._batch(keys[len(answers) :], shapes[-1].hashes)
            words: tuple[bytes | str | int, ...] = (
                verb,
                self._record.made,
                len(shapes),
                batch,
                size,
                shapes[-1].capacity,
                *(part for shape in shapes for part in (shape.pages, shape.hashes)),
            )
            state, some = client.run(KEYS, self._head, *words)
            answers += some
            if state == b"full":
                self._add_layer()
            elif state == b"changed":
                self._reload()
        return answers

    def _batch(self, keys: Sequence[bytes | str], hashes: int) -> tuple[bytes, int]:
        """Return the records of keys for the scripts, and the bytes of a record.

        A record is the page hash, 4 bytes, and the fields of the digests.
        """
        secret = self.parameters.key
        records = []
        for key in keys:
            text = key if type(key) is bytes else hashing.as_bytes(key)
            first = hashing.digest(secret + text)
            records.append(hashing.page_hash(first).to_bytes(4, "little"))
            records.append(hashing.chain(first, hashes))
        batch = b"".join(records)
        size = len(batch) // len(keys)
        # Redis counts the bits of a byte from the highest, the pages from the lowest:
        # bit 0 of a page is bit 7 for Redis. One operation flips all positions.
        flip = (bytes(4) + b"\7\0" * ((size - 4) // 2)) * len(keys)
        flipped = int.from_bytes(batch, "little") ^ int.from_bytes(flip, "little")
        return flipped.to_bytes(len(batch), "little"), size

    def _open(self, *, to_change: bool = False) -> Client:
        if self._client is None:
            raise StoreError("the filter is closed; open it again")
        if to_change and self._readonly:
            raise StoreError(f"{self._client.address.shown} was opened read-only")
        return self._client

    @property
    def _head(self) -> tuple[bytes]:
        return (self._open().address.head.encode(),)

    def _add_layer(self) -> None:
        """Add a layer, unless another process has just done so."""
        made, number = self._record.made, len(self._record.layers)
        words = new_layer(self.parameters, number)
        added, fields = changed(self._open(), made, number, "", made, *words)
        self._take(fields)
        if added:
            say_grown(self.parameters, self._record.counts)

    def _reload(self) -> None:
        """Read the head anew, after another process has changed it."""
        self._take(fields_of(self._open()))

    def _take(self, fields: dict[bytes, bytes]) -> None:
        """Go on with the head as it is now."""
        address = self._open().address
        if not fields:
            raise StoreError(
                f"{address.shown}: the filter is gone. It was deleted,"
                " or Redis was started without its data; restore them, or open the"
                " filter anew to begin an empty one"
            )
        record = Record.read(fields, address)
        if record.header != self._record.header:
            raise StoreMismatchError(
                f"{address.shown}: another filter has been made under this name"
                " since this one was opened; open it again"
            )
        self._record = record

    def clear(self) -> None:
        """Forget all keys, for all processes; parameters and secret key stay."""
        client = self._open(to_change=True)
        words = new_layer(self.parameters, 0)
        done = False
        while not done:
            made, layers = self._record.made, len(self._record.layers)
            done, fields = changed(client, made, layers, "clear", new_mark(), *words)
            self._take(fields)

    # Its description

    def __len__(self) -> int:
        """Count the keys that were new when added."""
        self._reload()
        return sum(self._record.keys)

    @property
    def layer_count(self) -> int:
        """Layers so far."""
        self._reload()
        return len(self._record.layers)

    @property
    def identity(self) -> dict[str, Any]:
        """The identity that the creator of the filter has given to it."""
        return dict(self._record.header["identity"])

    def info(self) -> FilterInfo:
        """Return the given and calculated figures of the filter; no page is read.

        The memory and the disk of Redis are not included.
        """
        self._reload()
        shown = self._open().address.shown
        return FilterInfo.of(shown, self.parameters, [self._record.counts])


def changed(
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


def fields_of(client: Client) -> dict[bytes, bytes]:
    """Return the fields of the head of a filter; empty if there is none."""
    found: dict[bytes, bytes] = client.ask("HGETALL", client.address.head)
    return found
