"""RedisFilter: a Bloom filter that many processes share at once."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

from bloomdupe.errors import (
    IncompatibleFilterError,
    SettingError,
    StoreError,
    StoreMismatchError,
)
from bloomdupe.filter import algebra, hashing
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.opening import held_against
from bloomdupe.filter.parameters import Parameters
from bloomdupe.redis.address import Address
from bloomdupe.redis.record import Record, new_fields, new_mark, shape_text
from bloomdupe.redis.server import FIELDS, Call, Server
from bloomdupe.redis.shared_layer import (
    PAGE_BYTES,
    PAGES_AT_ONCE,
    contents,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from typing_extensions import Self

    from bloomdupe.filter.contents import Contents
    from bloomdupe.filter.info import FilterInfo
    from bloomdupe.filter.layer import Layer
    from bloomdupe.filter.sizing import Geometry
    from bloomdupe.redis.server import Talk

__all__ = ["RedisFilter"]

MAX_BATCH = 1_000
"""Keys per script, which blocks Redis for some tens of milliseconds at most."""

NOTHING = bytes(PAGE_BYTES)


class RedisFilter(BloomFilter):
    """A :class:`~bloomdupe.BloomFilter` with its pages in Redis.

    Many processes may open it at once, on many machines. Even if several add a key at
    the same time, it is called new once at most, and the filter grows once. :meth:`add`
    and ``in`` take a round trip each; :meth:`update`, :meth:`add_many` and
    :meth:`contains_many` take one round trip for a thousand keys.

    Added keys are in Redis when the call returns, so :meth:`checkpoint` does nothing.
    The settings of Redis decide how durable they are there. No key is kept exactly
    there, and a crawl's own records cannot be stored beside them: ``exact`` raises
    :class:`~bloomdupe.errors.SettingError`, those verbs
    :class:`~bloomdupe.errors.StoreError`.

    All verbs raise :class:`~bloomdupe.errors.StoreUnreachableError` while the server is
    away; the same object works again afterwards.
    """

    def __init__(self, server: Server, record: Record, *, readonly: bool) -> None:
        # Not that of the base class: the filter has no pages in this process.
        self.parameters = Parameters.from_header(record.header, server.address.shown)
        self._server: Server | None = server
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
        memory: int | None = None,  # noqa: ARG003 - of directories only
        readonly: bool = False,
    ) -> Self:
        """Open the filter that the URL ``path`` names, or create it there.

        See :class:`~bloomdupe.redis.address.Address` for the URL, and
        :meth:`bloomdupe.BloomFilter.open` for everything else.
        """
        given = {"capacity": capacity, "fpp": fpp, "exact": exact, "key": key}
        address = Address.of(str(path))
        server = Server(address)
        with ExitStack() as undo:
            undo.callback(server.close)
            opened = cls.on(server, given, identity=identity or {}, readonly=readonly)
            undo.pop_all()
        return opened

    @classmethod
    def on(
        cls,
        server: Server,
        given: dict[str, Any],
        *,
        identity: dict[str, Any] | None = None,
        readonly: bool = False,
    ) -> Self:
        """Open the filter at a server's address: see :meth:`opening`."""
        return server.carry_out(
            cls.opening(server, given, identity=identity, readonly=readonly)
        )

    @classmethod
    def opening(
        cls,
        server: Server,
        given: dict[str, Any],
        *,
        identity: dict[str, Any] | None = None,
        readonly: bool = False,
    ) -> Talk[Self]:
        """Open the filter at a server's address, or create it with these values.

        ``given`` has ``capacity``, ``fpp``, ``exact`` and ``key``; None leaves a
        value open.
        """
        asked = Parameters.checked(
            **{
                **given,
                "capacity": 1 if given["capacity"] is None else given["capacity"],
            }
        )
        address = server.address
        if asked.exact:
            raise _no_exact_keys(address)
        fields = yield Call(server, FIELDS)
        if not fields:
            _check_creating(address, given, readonly=readonly)
            asked.check_room(server.memory, f"memory at {address.shown}")
            made = yield Call(
                server, "create", tuple(new_fields(asked, identity or {}))
            )
            fields = dict(zip(made[::2], made[1::2], strict=True))
        record = Record.read(fields, address)
        held_against(address.shown, record.header, asked, given, identity or {})
        return cls(server, record, readonly=readonly)

    def close(self) -> None:
        """Close the connection. Closing again does nothing."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    # Adding and asking

    def add(self, key: bytes | str, *, exact: bool = False) -> bool:
        """Add a key; True if it was certainly new, False if maybe seen before.

        ``exact`` is refused.
        """
        if exact:
            raise _no_exact_keys(self._open().address)
        return self._each("add", [key]) == b"1"

    def update(self, keys: Iterable[bytes | str]) -> int:
        """Add all keys; return how many were new.

        They go to Redis in portions of a thousand. If a portion fails (a key of a wrong
        type, a server that is away), the portions before it have been added.
        """
        return sum(answers.count(b"1") for answers in self._portions("add", keys))

    def add_many(self, keys: Iterable[bytes | str]) -> list[bool]:
        """Add all keys, like :meth:`update`; say of each whether it was new."""
        return _as_list(self._portions("add", keys))

    def contains(self, key: bytes | str, *, exact: bool = False) -> bool:
        """Whether the key is maybe in the filter; False is certain.

        ``exact`` is refused.
        """
        if exact:
            raise _no_exact_keys(self._open().address)
        return self._each("contains", [key]) == b"1"

    __contains__ = contains

    def contains_many(self, keys: Iterable[bytes | str]) -> list[bool]:
        """Say of each key whether it is maybe in the filter."""
        return _as_list(self._portions("contains", keys))

    def _portions(self, script: str, keys: Iterable[bytes | str]) -> Iterable[bytes]:
        some = iter(keys)
        while portion := list(islice(some, MAX_BATCH)):
            yield self._each(script, portion)

    def _each(self, script: str, keys: Sequence[bytes | str]) -> bytes:
        """Run a script for keys; return its answer to each key, ``0`` or ``1``."""
        return self._open().carry_out(self.each(script, keys))

    def each(
        self,
        script: str,
        keys: Sequence[bytes | str],
        arguments: Sequence[tuple[bytes | str | int, ...]] = (),
    ) -> Talk[bytes]:
        """Run a script that begins with ``layers.lua``, with arguments for each key.

        Returns the answer to each key, a digit.
        """
        server = self._open(to_change=script != "contains")
        answers = b""
        while len(answers) < len(keys):
            shapes = self._record.layers
            batch, size = self._batch(keys[len(answers) :], shapes[-1].hashes)
            words = (
                self._record.made,
                len(shapes),
                batch,
                size,
                shapes[-1].capacity,
                *(part for shape in shapes for part in (shape.pages, shape.hashes)),
                *(part for some in arguments[len(answers) :] for part in some),
            )
            state, some = yield Call(server, script, words)
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

    def _open(self, *, to_change: bool = False) -> Server:
        if self._server is None:
            raise StoreError("the filter is closed; open it again")
        if to_change and self._readonly:
            raise StoreError(f"{self._server.address.shown} was opened read-only")
        return self._server

    # Growth

    def _add_layer(self, given: Geometry | None = None) -> None:
        """Add a layer, unless another process has just done so."""
        server, number = self._open(), len(self._record.layers)
        least = self._record.layers[-1].hashes
        shape = shape_text(given or self.parameters.geometry(number, least))
        added = server.run("grow", self._record.made, number, shape)
        self._reload()
        if added:
            contents(self.parameters, server, self._record).announce_layer()

    def _reload(self) -> None:
        """Read the head anew, after another process has changed it."""
        server = self._open()
        fields = server.fields()
        if not fields:
            raise StoreError(
                f"{server.address.shown}: the filter is gone. It was deleted,"
                " or Redis was started without its data; restore them, or open the"
                " filter anew to begin an empty one"
            )
        record = Record.read(fields, server.address)
        if record.header != self._record.header:
            raise StoreMismatchError(
                f"{server.address.shown}: another filter has been made under this name"
                " since this one was opened; open it again"
            )
        self._record = record

    # Its description

    def _look(self) -> Contents:
        self._reload()
        return contents(self.parameters, self._open(), self._record)

    def info(self) -> FilterInfo:
        """Return the given, calculated and measured figures of the filter.

        The memory and the disk of Redis are not included.
        """
        found = super().info()
        return replace(found, path=self._open().address.shown)

    @property
    def identity(self) -> dict[str, Any]:
        """The identity that the creator of the filter has given to it."""
        return dict(self._record.header["identity"])

    @property
    def changed(self) -> bool:
        """False: every change is in Redis already."""
        return False

    @property
    def due(self) -> bool:
        """False, like :attr:`changed`."""
        return False

    def checkpoint(self) -> None:
        """Do nothing: every added key is in Redis already."""

    # Set algebra

    def __ior__(self, other: BloomFilter) -> Self:  # type: ignore[misc]
        """Add all keys of a compatible filter; the count becomes an estimate.

        Other processes may add keys meanwhile. After a crash some of the keys may be
        missing: repeat the call.
        """
        algebra.check_compatible(self.parameters, other.parameters)
        layers = other.counted_layers
        self.unite((number, *each) for number, each in enumerate(layers))
        return self

    def unite(self, layers: Iterable[tuple[int, Layer, int]]) -> None:
        """Add the keys of layers with the same key: number here, layer, number of keys.

        A missing layer is created with the shape of the given layer; an existing layer
        must have that shape. Raises :class:`~bloomdupe.errors.IncompatibleFilterError`.
        """
        server = self._open(to_change=True)
        for number, layer, keys in layers:
            self._reload()
            if number == len(self._record.layers):
                self._add_layer(layer.geometry)
            if self._record.layers[number] != layer.geometry:
                raise IncompatibleFilterError(
                    f"{server.address.shown}: layer {number} is for"
                    f" {self._record.layers[number].capacity:,} keys, and the layer to"
                    f" add is for {layer.geometry.capacity:,}"
                )
            before = self._record.keys[number]
            pages: list[int | bytes] = []
            for place, page in enumerate(layer.all_pages()):
                value = page.tobytes()[:PAGE_BYTES]
                if value != NOTHING:
                    pages += place, value
                if len(pages) == 2 * PAGES_AT_ONCE:
                    self._unite(number, 0, pages)
                    pages = []
            self._unite(number, 0, pages)
            ours = contents(self.parameters, server, self._record)
            after = ours.layers[number].united_keys(before, keys)
            self._unite(number, after - before, [])
        self._reload()
        if self._record.keys[-1] >= self._record.layers[-1].capacity:
            self._add_layer()

    def _unite(self, layer: int, keys: int, pages: Sequence[int | bytes]) -> None:
        server = self._open()
        scratch = f"{server.address.head}:scratch"
        made = self._record.made
        if not server.run("unite", made, layer, keys, *pages, scratch=scratch):
            raise StoreError(
                f"{server.address.shown}: the filter was cleared or made anew"
                " meanwhile; unite again"
            )

    def clear(self) -> None:
        """Forget all keys, for all processes; parameters and secret key stay."""
        server = self._open(to_change=True)
        shape = shape_text(self.parameters.geometry(0))
        while not server.run("clear", self._record.made, new_mark(), shape):
            self._reload()
        self._reload()

    # Not supported on Redis

    def _refuse(self, verb: str) -> NoReturn:
        where = self._open().address.shown
        raise StoreError(f"{verb}: {where} is on Redis, which keeps the keys alone")

    def _durable(self, verb: str) -> NoReturn:
        self._refuse(verb)

    def share_store(self) -> NoReturn:
        """Refuse: a crawl's checkpoint is a transaction of LMDB."""
        self._refuse("share_store")

    def prepare(self) -> NoReturn:
        """Refuse, as :meth:`share_store`."""
        self._refuse("prepare")

    @property
    def notes(self) -> dict[str, Any]:
        """Refuse: Redis stores no notes for a filter."""
        self._refuse("notes")

    def record(self, name: str) -> dict[str, Any] | None:
        """Refuse: no other class stores a record here."""
        self._refuse(f"record({name!r})")


def _no_exact_keys(address: Address) -> SettingError:
    return SettingError(
        f"exact: {address.shown} is on Redis, which keeps no key exactly; leave exact"
        " out"
    )


def _check_creating(address: Address, given: dict[str, Any], *, readonly: bool) -> None:
    if readonly or given["capacity"] is None:
        raise StoreError(
            f"{address.shown}: there is no filter of this name"
            + ("" if readonly else "; give a capacity to create one")
        )


def _as_list(portions: Iterable[bytes]) -> list[bool]:
    return [answer == ord("1") for answers in portions for answer in answers]
