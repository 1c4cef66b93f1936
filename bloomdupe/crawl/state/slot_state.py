"""SlotState: state that belongs to a slot, and goes where the slot goes.

On disk it is a part of each checkpoint. On Redis it is settled with the pages of its
slot, and the next owner of the slot gets it with the first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from bloomdupe.crawl.later.clock import Clock

CIRCUIT, DELAY, HOLD, LAST_REQUEST = "circuit", "delay", "hold", "last"
"""Names of the values in the object that Redis keeps of a slot."""


class SlotState(Protocol):
    """One kind of state that each slot may have."""

    def stored_of(self, slot: str, clock: Clock) -> Any | None:  # noqa: ANN401
        """Return the state of a slot as a JSON value; None if it has none."""

    def restore_slot(self, slot: str, stored: Any, clock: Clock) -> None:  # noqa: ANN401
        """Go on with the state of a slot that :meth:`stored_of` has returned."""

    def until(self, slot: str) -> float:
        """Return when the state loses its effect if no request of the slot is left.

        In seconds of ``time.monotonic()``.
        """
