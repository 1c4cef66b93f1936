"""Slot values: the state of a slot as a JSON object on Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.frontier.clock import NEVER
from bloomdupe.frontier.slot_state import Rest, SlotState, rest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["DELAY", "rests_of", "state_of", "values_of"]

CIRCUIT, DELAY, HOLD, LAST_REQUEST = "circuit", "delay", "hold", "last"


def values_of(
    state: SlotState, at: Callable[[float], float], now: float
) -> dict[str, Any]:
    """Return a state as JSON values, without what does not matter."""
    values: dict[str, Any] = {}
    if state.delay:
        values[DELAY] = state.delay
    if state.held > now:
        values[HOLD] = at(state.held)
    if state.rests:
        values[CIRCUIT] = [
            state.failures, state.rests, at(state.until), state.dead, state.reason,
        ]  # fmt: skip
    if state.delay and state.last > NEVER:
        values[LAST_REQUEST] = at(state.last)
    return values


def state_of(values: Mapping[str, Any], until: Callable[[float], float]) -> SlotState:
    """Return the state that these values are of."""
    state = SlotState()
    state.delay = values.get(DELAY, 0.0)
    state.held = until(values.get(HOLD, 0.0))
    state.last = until(values.get(LAST_REQUEST, 0.0))
    if CIRCUIT in values:
        state.failures, state.rests, rest, state.dead, state.reason = values[CIRCUIT]
        state.until = until(rest)
    return state


def rests_of(about: Mapping[str, Mapping[str, Any]], now: float) -> dict[str, Rest]:
    """Return the slots that rest at a Unix time."""
    found = ((slot, rest_of(state_of(one, float), now)) for slot, one in about.items())
    rests = [(slot, rest) for slot, rest in found if rest is not None]
    return dict(sorted(rests, key=lambda one: one[1].until))
