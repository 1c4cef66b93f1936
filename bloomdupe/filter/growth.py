"""Growth: the reaction of a filter that holds as many keys as it was made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.errors import FilterFullError
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from bloomdupe.filter.contents import Contents
    from bloomdupe.filter.layer import Layer
    from bloomdupe.filter.parameters import Parameters

logger = logger_of(__name__)


class Growth:
    """One of the policies ``"grow"``, ``"warn"`` and ``"error"``, and its words."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.adds_layers = policy == "grow"
        self.refuses = policy == "error"
        self._warned = False

    def add_layer(self, contents: Contents) -> Layer:
        """Add a layer, and say so."""
        layer = contents.add_layer()
        self.announce(contents)
        return layer

    def announce(self, contents: Contents) -> None:
        """Say that a layer was added."""
        layer = contents.newest
        logger.info(
            "The filter reached its capacity at %(keys)d keys; layer %(number)d, for"
            " %(capacity)d more, keeps the false-positive probability below %(fpp)g."
            " A larger capacity from the start would save memory and time.",
            {
                "keys": len(contents),
                "number": layer.number + 1,
                "capacity": layer.geometry.capacity,
                "fpp": contents.parameters.fpp,
            },
        )

    def warn(self, parameters: Parameters) -> None:
        """Say once that the filter is full and may not grow."""
        if self._warned:
            return
        self._warned = True
        logger.warning(
            "The filter holds its capacity of %(capacity)d keys and may not grow"
            ' (growth = "%(growth)s"): its false-positive probability of %(fpp)g'
            " holds no longer",
            {
                "capacity": parameters.capacity,
                "growth": self.policy,
                "fpp": parameters.fpp,
            },
        )

    def error(self, parameters: Parameters) -> FilterFullError:
        """Return the error that refuses another key."""
        return FilterFullError(
            f"the filter holds its capacity of {parameters.capacity:,} keys"
            ' and growth = "error"; make a larger one or allow growth'
        )
