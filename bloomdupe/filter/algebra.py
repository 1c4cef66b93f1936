"""Algebra: two filters with equal parameters, compared and put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.errors import IncompatibleFilterError
from bloomdupe.filter.hashing import digest

if TYPE_CHECKING:
    from bloomdupe.filter.contents import Contents
    from bloomdupe.filter.parameters import Parameters


def same_bits(ours: Contents, theirs: Contents) -> bool:
    """Whether both have equal parameters, and the same bits in all layers."""
    return (
        ours.parameters == theirs.parameters
        and len(ours.layers) == len(theirs.layers)
        and all(
            page == other
            for layer, match in zip(ours.layers, theirs.layers, strict=True)
            for page, other in zip(layer.all_pages(), match.all_pages(), strict=True)
        )
    )


def check_compatible(ours: Parameters, theirs: Parameters) -> None:
    """Raise :class:`~bloomdupe.errors.IncompatibleFilterError` unless equal."""
    if ours != theirs:
        raise IncompatibleFilterError(
            f"the filters differ: {_described(ours)} and {_described(theirs)}; make"
            " both with the same parameters and the same `key`"
        )


def merge(ours: Contents, theirs: Contents) -> None:
    """Add everything that ``theirs`` remembers to ``ours``, and make it durable.

    Raises :class:`~bloomdupe.errors.IncompatibleFilterError` if their parameters
    differ.
    """
    check_compatible(ours.parameters, theirs.parameters)
    ours.checkpoint()
    layers = theirs.counted_layers
    for taker, (layer, keys) in zip(ours.takers(layers), layers, strict=True):
        taker.merge(layer, keys)
    for identity in theirs.exact:
        ours.exact.add_id(identity)
    ours.fold()


def _described(parameters: Parameters) -> str:
    # A hash of the key tells keys apart without giving them away.
    mark = digest(parameters.key)[:4].hex()
    return (
        f"capacity {parameters.capacity:,}, fpp {parameters.fpp:g}, exact"
        f" {parameters.exact}, key #{mark}"
    )
