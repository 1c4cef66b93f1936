"""FrontierHeader: the parameters of a frontier on Redis, and how it is created.

The head of the frontier is a hash of Redis at ``bloomdupe:{NAME}``:

``frontier``  4, the format; other formats are refused
``header``    parameters, secret key, identity, and number of partitions, as JSON
``stops``     how often the running workers were asked to stop
``blocked``   rules that keep requests out, a JSON list; the program gives them meaning
``look``      the state of the crawl as a worker has seen it in its turn; and
``next_look``  the time in milliseconds of the next turn
``runs``      number of runs; in a run, at least one worker is there at any time
``round``     number of the round, if it is not the first: see
              :meth:`OwningFrontier.begin_round`; and
``finished``  the number of the last round that a worker has found finished
``born``      drawn at random when it is created; missing when it is being removed
``whole``     1 when all partitions are created. A partition that is missing then is
              lost
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from typing import TYPE_CHECKING, Any

from mmh3 import mmh3_32_uintdigest

from bloomdupe.errors import (
    SettingError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
)
from bloomdupe.filter.parameters import Parameters, check_same
from bloomdupe.redis.filter_on_server import FilterOnServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bloomdupe.redis.server import Server
    from bloomdupe.store.redis.address import Address

    Rules = list[dict[str, Any]]

__all__ = [
    "born_of",
    "change_rules",
    "check_partitions",
    "head_of",
    "header_in",
    "header_of",
    "mark_of",
    "part_of",
    "partition_of",
    "read_rules",
    "rules_in",
]

FORMAT = 4
DEFAULT_PARTITIONS = 64
MAX_PARTITIONS = 4_096
ROOM = 1.25
"""Keys for which the filter of a partition is sized, per key of its share.

Hosts are not distributed evenly, and a filter that grows takes three times the memory
at once.
"""


def partition_of(slot: bytes, partitions: int) -> int:
    """Return the partition of a slot, which has the name that Redis keeps.

    Never change its answers: seen requests would be looked up in the wrong place.
    """
    return mmh3_32_uintdigest(slot) % partitions


def mark_of(header: dict[str, Any]) -> str:
    """Return a digest that identifies a frontier without revealing its secret key."""
    return hashlib.sha256(b"frontier " + header["key"].encode()).hexdigest()[:32]


def check_partitions(partitions: int | None) -> None:
    """Refuse an invalid number of partitions; None leaves the choice open."""
    if partitions is not None and not 1 <= partitions <= MAX_PARTITIONS:
        raise SettingError(
            f"partitions = {partitions!r}: expected 1 to {MAX_PARTITIONS:,}"
        )


def part_of(server: Server, number: int) -> Server:
    """Return the server of a frontier with the name of a partition on it."""
    return server.at(server.address.extended(f":{number}"))


def head_of(server: Server) -> Mapping[bytes, bytes]:
    """Return the fields of a frontier's head."""
    fields, shown = server.fields(), server.address.shown
    if not fields:
        raise StoreError(
            f"{shown}: there is no crawl of this name. If there was one, it was"
            " deleted, or Redis was started without its data"
        )
    if b"format" in fields and b"frontier" not in fields:
        raise StoreMismatchError(
            f"{shown} is a filter, and no crawl: `bloomdupe info` says what is in it"
        )
    return fields


def header_in(fields: Mapping[bytes, bytes], address: Address) -> dict[str, Any]:
    """Return the header in the fields of a head; refuse fields without a header."""
    shown = address.shown
    if b"frontier" not in fields:
        raise StoreMismatchError(
            f"{shown}: the key {address.head} holds something else than a"
            " frontier of bloomdupe; take another name"
        )
    if fields[b"frontier"] != b"%d" % FORMAT:
        raise StoreMismatchError(
            f"{shown} has format {fields[b'frontier'].decode()}, this version of"
            f" bloomdupe reads format {FORMAT}; use the version that wrote it"
        )
    try:
        header: dict[str, Any] = json.loads(fields[b"header"])
    except (KeyError, ValueError) as error:
        raise StoreDamagedError(
            f"{shown}: the key {address.head} is not as it was written ({error!r});"
            " restore the data of Redis from a backup"
        ) from error
    return header


def born_of(fields: Mapping[bytes, bytes], address: Address) -> bytes:
    """Return what tells a frontier from others of its name.

    Refuses a frontier that is being removed.
    """
    if b"born" not in fields:
        raise StoreError(
            f"{address.shown}: it is being removed. If that was interrupted, call"
            " `bloomdupe reset` again; or take another name"
        )
    return fields[b"born"]


def rules_in(text: bytes) -> Rules:
    """Return the rules that keep requests out, as the head has them."""
    rules: Rules = json.loads(text) if text else []
    return rules


def read_rules(server: Server) -> Rules:
    """Read the rules that keep requests out."""
    return rules_in(server.fields().get(b"blocked", b""))


def change_rules(server: Server, change: Callable[[Rules], Rules]) -> Rules:
    """Change the rules that keep requests out, and return them.

    ``change`` is called again if another process changes them at the same time.
    """
    while True:
        before = server.fields().get(b"blocked", b"")
        rules = change(rules_in(before))
        if server.run("block", before, json.dumps(rules)):
            return rules


def header_of(
    server: Server,
    capacity: int | None,
    fpp: float | None,
    partitions: int | None,
    identity: dict[str, Any] | None,
    key: bytes | None = None,
) -> dict[str, Any]:
    """Return the header of a frontier.

    Creates the frontier if it does not exist and a capacity is given.
    """
    shown = server.address.shown
    fields = head_of(server) if capacity is None else server.fields()
    if not fields:
        assert capacity is not None  # noqa: S101 - or there is a head
        new = Parameters.checked(capacity, fpp, key=key).header(identity or {})
        new["partitions"] = partitions or DEFAULT_PARTITIONS
        born = secrets.token_hex(8)
        words = "frontier", FORMAT, "header", json.dumps(new), "born", born
        answer = server.run("create", *words)
        fields = dict(zip(answer[::2], answer[1::2], strict=True))
    header = header_in(fields, server.address)
    wanted = {"capacity": capacity, "fpp": fpp, "partitions": partitions}
    check_same(shown, header, {n: v for n, v in wanted.items() if v is not None})
    check_same(shown, header["identity"], identity or {})
    if b"whole" not in fields:
        parameters = vars(Parameters.from_header(header, shown))
        size = header["partitions"]
        share = math.ceil(ROOM * parameters["capacity"] / size)
        given = {**parameters, "capacity": share}
        server.at_once(
            FilterOnServer.opening(part_of(server, number), given)
            for number in range(size)
        )
        server.set_field("whole", "1")
    return header
