"""URIs of feeds: without name and password, and with a spider's parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*@)?(.*)", re.DOTALL)
PARAMETER = re.compile(r"%\((?P<name>[^)]*)\)[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
CHANGING = frozenset({"time", "batch_time", "batch_id"})
"""Parameters for which Scrapy has another value in each run or batch."""


def without_secret(uri: str) -> str:
    """Return a URI without its secret, for a store, a log or an error message."""
    found = PARTS.fullmatch(uri)
    return uri if found is None else found[1] + found[3]


def with_parameters(template: str, values: Mapping[str, object]) -> str:
    """Return the template of a URI with all its parameters that do not change.

    The parameters of time and batch stay as they are. Raises :class:`KeyError` if a
    parameter is not among the ``values``.
    """

    def filled(found: re.Match[str]) -> str:
        return found[0] if found["name"] in CHANGING else found[0] % values

    return PARAMETER.sub(filled, template)


def parameters(template: str) -> set[str]:
    """Return the parameters of a template besides those of time and batch."""
    return {found["name"] for found in PARAMETER.finditer(template)} - CHANGING
