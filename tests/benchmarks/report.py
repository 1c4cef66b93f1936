"""Markdown tables whose figures stand beside their bounds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Rows = Sequence[Sequence[str]]


class Report:
    """Prints tables, and remembers them and which bounds were missed."""

    def __init__(self, machine: dict[str, str]) -> None:
        self.missed: list[str] = []
        self._tables: list[dict[str, Any]] = []
        self._bounds: list[dict[str, Any]] = []
        self._machine = machine
        for name, value in machine.items():
            print(f"* {name}: {value}")

    def bound(self, what: str, value: float, limit: float, form: str = ".2f") -> str:
        """Return ``value`` as text, with its bound and whether it is kept."""
        kept = value <= limit
        self._bounds.append(
            {"what": what, "value": value, "limit": limit, "kept": kept}
        )
        if not kept:
            self.missed.append(f"{what}: {value:{form}}, bound {limit:{form}}")
        return f"{value:{form}} (≤ {limit:{form}} {'ok' if kept else 'MISSED'})"

    def table(self, title: str, note: str, header: Sequence[str], rows: Rows) -> None:
        """Print a table under a heading and a note on how it was measured."""
        self._tables.append(
            {"title": title, "note": note, "header": list(header), "rows": list(rows)}
        )
        print(f"\n### {title}\n\n{note}\n")
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        for row in (header, ["-" * width for width in widths], *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print(f"| {' | '.join(cells)} |", flush=True)

    def finish(self, file: Path | None) -> int:
        """Print what was missed, write the JSON file; return the exit code."""
        kept = len(self._bounds) - len(self.missed)
        print(f"\n{kept} of {len(self._bounds)} bounds kept.")
        for line in self.missed:
            print(f"MISSED: {line}")
        if file is not None:
            result = {
                "machine": self._machine,
                "tables": self._tables,
                "bounds": self._bounds,
            }
            file.write_text(json.dumps(result, indent=1) + "\n")
        return 1 if self.missed else 0
