"""FrontierHeader: the parameters of a frontier on Redis, and how it is created.

The head of the frontier is a hash of Redis at ``bloomdupe:{NAME}``:

``frontier``  2, the format; other formats are refused
``header``    parameters, secret key, identity, number of partitions, and the rule that
              assigns a request to a partition, as JSON; and whether items of
              ``start()`` have names
``stops``     how often the running workers were asked to stop
``stays_until``  time in milliseconds until which a worker runs that stays open when
              nothing is pending
``whole``     1 when all partitions are created. A partition that is missing then is
              lost
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import SettingError, StoreDamagedError, StoreMismatchError
from bloomdupe.filter.parameters import Parameters, check_same
from bloomdupe.redis.redis_filter import RedisFilter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bloomdupe.redis.address import Address
    from bloomdupe.redis.server import Server

__all__ = ["NAMED", "check_partitions", "header_in", "header_of", "mark_of", "part_of"]

FORMAT = 2
NAMED = "start_items_named"
DEFAULT_PARTITIONS = 64
MAX_PARTITIONS = 4_096
PARTITION_BY = ("slot", "url")
ROOM = 1.25
"""Keys for which the filter of a partition is sized, per key of its share.

Hosts are not distributed evenly, and a filter that grows takes three times the memory
at once.
"""


def mark_of(header: dict[str, Any]) -> str:
    """Return a digest that identifies a frontier without revealing its secret key."""
    return hashlib.sha256(b"frontier " + header["key"].encode()).hexdigest()[:32]


def check_partitions(partitions: int | None, partition_by: str | None) -> None:
    """Refuse an invalid number of partitions or rule; None leaves the choice open."""
    if partitions is not None and not 1 <= partitions <= MAX_PARTITIONS:
        raise SettingError(
            f"partitions = {partitions!r}: expected 1 to {MAX_PARTITIONS:,}"
        )
    if partition_by not in (None, *PARTITION_BY):
        raise SettingError(
            f"partition_by = {partition_by!r}: expected {' or '.join(PARTITION_BY)}"
        )


def part_of(server: Server, number: int) -> Server:
    """Return the server of a frontier with the name of a partition on it."""
    name, shown = server.address.name, server.address.shown
    address = server.address._replace(
        name=f"{name}:{number}", shown=f"{shown}:{number}"
    )
    return server.at(address)


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
            f" bloomdupe knows {FORMAT}; use the version that wrote it"
        )
    try:
        header: dict[str, Any] = json.loads(fields[b"header"])
    except (KeyError, ValueError) as error:
        raise StoreDamagedError(
            f"{shown}: the key {address.head} is not as it was written ({error!r});"
            " restore the data of Redis from a backup"
        ) from error
    return header


def header_of(
    server: Server,
    capacity: int | None,
    fpp: float | None,
    partitions: int | None,
    partition_by: str | None,
    identity: dict[str, Any] | None,
    key: bytes | None = None,
) -> dict[str, Any]:
    """Return the header of a frontier; create the frontier if it does not exist."""
    shown = server.address.shown
    fields = server.fields()
    if not fields:
        if capacity is None:
            raise SettingError(
                f"{shown}: there is no frontier of this name; the first worker makes"
                " it, which must give a capacity"
            )
        new = Parameters.checked(capacity, fpp, key=key).header(identity or {})
        new["partitions"] = partitions or DEFAULT_PARTITIONS
        new["partition_by"] = partition_by or PARTITION_BY[0]
        new[NAMED] = True
        answer = server.run("create", "frontier", FORMAT, "header", json.dumps(new))
        fields = dict(zip(answer[::2], answer[1::2], strict=True))
    header = header_in(fields, server.address)
    wanted: dict[str, Any] = {
        "capacity": capacity, "fpp": fpp, "partitions": partitions,
        "partition_by": partition_by,
    }  # fmt: skip
    check_same(shown, header, {n: v for n, v in wanted.items() if v is not None})
    check_same(shown, header["identity"], identity or {})
    if b"whole" not in fields:
        parameters = vars(Parameters.from_header(header, shown))
        size = header["partitions"]
        share = math.ceil(ROOM * parameters["capacity"] / size)
        given = {**parameters, "capacity": share}
        server.at_once(
            RedisFilter.opening(part_of(server, number), given)
            for number in range(size)
        )
        server.set_field("whole", "1")
    return header
