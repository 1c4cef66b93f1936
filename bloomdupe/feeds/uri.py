"""URIs of feeds, without the name and the password that may stand in them."""

from __future__ import annotations

import re

__all__ = ["with_secret", "without_secret"]

_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*@)?(.*)", re.DOTALL)


def without_secret(uri: str) -> str:
    """Return a URI as it may stand in a store, a log or an error message."""
    found = _PARTS.fullmatch(uri)
    return uri if found is None else found[1] + found[3]


def with_secret(uri: str, other: str) -> str:
    """Return a URI with the name and the password that stand in another one."""
    found, secret = _PARTS.fullmatch(uri), _PARTS.fullmatch(other)
    if found is None or secret is None:
        return uri
    return found[1] + (secret[2] or "") + found[3]
