"""Drawing: charts as SVG, for a page that is light or dark. Needs matplotlib.

Colours are written as unusual shades of black, and then replaced by variables of the
page's style sheet.
"""

from __future__ import annotations

import io
import re
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

COLOURS = {
    "ink": "#000001",
    "faint": "#000002",
    "first": "#000003",
    "second": "#000004",
    "good": "#000005",
    "bad": "#000006",
}
INK, FAINT, FIRST, SECOND, GOOD, BAD = COLOURS.values()

COLOUR = re.compile("|".join(COLOURS.values()))
TAG = re.compile("<[^>]*>")
VARIABLES = {colour: f"var(--{name})" for name, colour in COLOURS.items()}


def _with_variables(tag: re.Match[str]) -> str:
    return COLOUR.sub(lambda colour: VARIABLES[colour[0]], tag[0])


class Chart(NamedTuple):
    """A chart."""

    title: str
    note: str
    """A sentence about the chart."""
    svg: str


class Maker:
    """Makes a chart from a drawing."""

    def __init__(self, figure: Figure, axes: Axes) -> None:
        self._figure = figure
        self._axes = axes
        self.lowest: float | None = None
        """Lower end of the vertical axis; None: that of the values."""

    def __call__(self, title: str, note: str) -> Chart:
        """Return the chart with a title and a note."""
        self._axes.set_ylim(bottom=self.lowest)
        file = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with (
            mpl.rc_context({"svg.hashsalt": title, "svg.fonttype": "none"}),
            warnings.catch_warnings(),
        ):
            # Text stays text, so the reader's fonts show it, and ours need no glyphs.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            self._figure.savefig(file, format="svg", metadata=nothing, transparent=True)
        svg = file.getvalue()
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
        return Chart(title, note, TAG.sub(_with_variables, svg))


@contextmanager
def drawing() -> Iterator[tuple[Axes, Maker]]:
    """Give axes to draw in, and the maker of the chart."""
    style: dict[Any, Any] = {
        "text.color": INK,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.formatter.limits": (-9, 9),
        "xtick.color": INK,
        "ytick.color": INK,
        "grid.color": FAINT,
        "grid.alpha": 0.4,
        "legend.frameon": False,
        "legend.labelcolor": INK,
        "font.size": 9,
        "lines.linewidth": 1.6,
        # Names come from the web, and none of them is a formula.
        "text.parse_math": False,
        "text.usetex": False,
        "axes.formatter.use_mathtext": False,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(4.3, 2.1), layout="constrained")
        axes = figure.add_subplot()
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        yield axes, Maker(figure, axes)
