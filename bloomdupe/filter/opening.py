"""Opening: finds or creates the store of a filter, and checks its parameters."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreError
from bloomdupe.filter.contents import empty_record
from bloomdupe.filter.parameters import Parameters, check_same

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeGuard

    from bloomdupe.store.store import Store, StorePlace

URL = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(path: object) -> TypeGuard[str]:
    """Whether a filter's place is the URL of a Redis, and no directory.

    Or of anything else: as a path, it might be shown with its password.
    """
    return isinstance(path, str) and URL.match(path) is not None


def open_or_create(
    place: StorePlace,
    given: dict[str, Any],
    identity: dict[str, Any],
    *,
    readonly: bool,
) -> tuple[Parameters, Store]:
    """Open the store at a place, or create it there; see :func:`held_against`.

    A new store needs a capacity. Returns the parameters of the store, too.
    """
    asked = Parameters.asked(given)
    if place.exists():
        store = place.open(readonly=readonly)
    elif readonly or given["capacity"] is None:
        raise StoreError(
            f"{place.shown}: there is no bloomdupe store"
            + ("" if readonly else "; give a capacity to create one")
        )
    else:
        asked.check_room(*place.room())
        records = {"store": asked.header(identity), "filter": empty_record(asked)}
        store = place.create(records)
    with ExitStack() as undo:
        undo.callback(store.close)
        found = held_against(place.shown, store.header, asked, given, identity)
        undo.pop_all()
    return found, store


def held_against(
    path: Path | str,
    header: dict[str, Any],
    asked: Parameters,
    given: dict[str, Any],
    identity: dict[str, Any],
) -> Parameters:
    """Return the parameters in a store's header, unless different ones were ``given``.

    ``asked`` are the checked ones. Raises
    :class:`~bloomdupe.errors.StoreMismatchError`, which prints both.
    """
    found = Parameters.from_header(header, path)
    wanted = {
        name: value for name, value in vars(asked).items() if given[name] is not None
    }
    check_same(path, vars(found), wanted)
    check_same(path, header["identity"], identity)
    return found
