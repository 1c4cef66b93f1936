"""URIs of feeds: without name and password, and with a spider's parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*@)?(.*)", re.DOTALL)
_PARAMETER = re.compile(r"%\((?P<name>[^)]*)\)[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
_CHANGING = frozenset({"time", "batch_time", "batch_id"})
"""Parameters for which Scrapy has another value in each run or batch."""


def without_secret(uri: str) -> str:
    """Return a URI without its secret, for a store, a log or an error message."""
    found = _PARTS.fullmatch(uri)
    return uri if found is None else found[1] + found[3]


def with_secret(uri: str, other: str) -> str:
    """Return a URI with the name and the password of another URI."""
    found, secret = _PARTS.fullmatch(uri), _PARTS.fullmatch(other)
    if found is None or secret is None:
        return uri
    return found[1] + (secret[2] or "") + found[3]


def is_local(uri: str) -> bool:
    """Whether a URI is for a file on this machine; False if it cannot be read."""
    try:
        return urlsplit(uri).scheme in {"", "file"}
    except ValueError:
        return False


def with_parameters(template: str, values: Mapping[str, object]) -> str:
    """Return the template of a URI with all its parameters that do not change.

    The parameters of time and batch stay as they are. Raises :class:`KeyError` if a
    parameter is not among the ``values``.
    """

    def filled(found: re.Match[str]) -> str:
        return found[0] if found["name"] in _CHANGING else found[0] % values

    return _PARAMETER.sub(filled, template)


def parameters(template: str) -> set[str]:
    """Return the parameters of a template besides those of time and batch."""
    return {found["name"] for found in _PARAMETER.finditer(template)} - _CHANGING


def changes(template: str) -> bool:
    """Whether a template has parameters of time or batch."""
    return any(f["name"] in _CHANGING for f in _PARAMETER.finditer(template))


def fits(uri: str, template: str) -> bool:
    """Whether a URI may be a result of this template.

    The parameters of time and batch stay in their part of the URI, and no parameter
    leads upwards.
    """

    def marked(found: re.Match[str]) -> str:
        return "\0" if found["name"] in _CHANGING else "\1"

    literal = _PARAMETER.sub(marked, template).replace("%%", "%")
    pattern = re.escape(literal).replace("\0", "[^/]*").replace("\1", ".*")
    if uri.split("/").count("..") > literal.split("/").count(".."):
        return False
    return re.fullmatch(pattern, uri.replace("%%", "%"), re.DOTALL) is not None


def parts_with_changes(template: str) -> int:
    """Count the last parts of a URI, from the first on that changes; at least 1."""
    parts = template.split("/")
    for number, part in enumerate(parts):
        if changes(part):
            return len(parts) - number
    return 1
