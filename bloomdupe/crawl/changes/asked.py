"""Asked: a request that a user names, as a change carries it."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

__all__ = ["Asked"]


class Asked(NamedTuple):
    """A request to make pending, with its fingerprint."""

    url: str
    key: bytes
    exact: bool
    """Whether the fingerprint must be kept exactly."""
    slot: str
    priority: int
    payload: bytes
    start: bool
    """Whether it comes last within its priority, as start requests do."""
    dont_filter: bool
    not_before: float | None
    """Unix time before which it is not fetched."""

    @property
    def values(self) -> dict[str, Any]:
        """The fields as plain types, for JSON."""
        return {
            **self._asdict(),
            "key": self.key.hex(),
            "payload": base64.b64encode(self.payload).decode(),
        }

    @classmethod
    def of(cls, values: dict[str, Any]) -> Asked:
        """Return the request with these :attr:`values`.

        Raises :class:`ValueError`, :class:`KeyError` or :class:`TypeError` if they are
        none.
        """
        given = {
            **values,
            "key": bytes.fromhex(values["key"]),
            "payload": base64.b64decode(values["payload"], validate=True),
        }
        return cls(**given)
