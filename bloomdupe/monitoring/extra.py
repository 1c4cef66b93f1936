"""Extra: optional packages."""

from __future__ import annotations

from importlib.util import find_spec

from bloomdupe.errors import ExtraMissingError


def need(package: str, extra: str, caller: str) -> None:
    """Raise :class:`ExtraMissingError` if a package is missing; ``caller`` needs it."""
    if find_spec(package) is None:
        raise ExtraMissingError(
            f"{caller} needs the package {package}, which is not installed:"
            f" pip install 'bloomdupe[{extra}]'"
        )
