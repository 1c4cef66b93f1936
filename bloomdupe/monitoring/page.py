"""Page: the parts of a report, in HTML that loads no other files."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any

from bloomdupe._version import __version__
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bloomdupe.monitoring.drawing import Chart

__all__ = ["figure", "in_figures", "page", "table", "text"]

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #222; --faint: #c8ccd0;
  --first: #1f6feb; --second: #c05621; --good: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #dde3ea;
  --faint: #4a525c; --first: #6cb0ff; --second: #f0a35e; --good: #57c56f;
  --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.6rem; } h2 { margin: 2rem 0 .5rem; font-size: 1.15rem; }
p { margin: .2rem 0; } .note { opacity: .75; font-size: .87rem; }
.tiles { display: grid; gap: .8rem; margin-top: 1.2rem;
  grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
.tiles div, figure { border: 1px solid var(--faint); border-radius: .5rem;
  padding: .7rem .9rem; }
.tiles b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.charts { display: grid; gap: 1rem; margin-top: 1.2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(28rem, 100%), 1fr)); }
figure { margin: 0; } figure svg { display: block; width: 100%; height: auto; }
figcaption b { font-size: 1.02rem; }
.rows { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
td, th { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--faint); }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
td.url { max-width: 34rem; overflow-wrap: anywhere; }
.killed { color: var(--bad); }
"""


def text(words: str) -> str:
    """Return words escaped for HTML; all text from outside passes through here."""
    return escape(printable(words))


def page(title: str, parts: Iterable[str]) -> str:
    """Return a page of such parts."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'; img-src data:\">\n"
        f'<meta name="generator" content="bloomdupe {__version__}">\n'
        f'<link rel="icon" href="data:,">\n'
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def figure(chart: Chart) -> str:
    """Return a chart under its title."""
    drawn = chart.svg or "<p>None.</p>"
    return (
        f'<figure role="img" aria-label="{text(chart.title)}"><figcaption>'
        f"<b>{text(chart.title)}</b>"
        f'<p class="note">{text(chart.note)}</p></figcaption>{drawn}</figure>'
    )


def in_figures(
    figures: Iterable[tuple[str, str]], info: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a table of figures, and all of ``info`` as JSON.

    ``info`` is the object that ``bloomdupe info --json`` prints. A figure is a dotted
    name in it, and its description in words; figures that are missing are left out.
    """
    yield "<h2>In figures</h2>"
    yield '<p class="note">The same as <code>bloomdupe info --json</code>.</p>'
    yield from table(("", ""), _rows(figures, info))
    yield (
        '<script type="application/json" id="info">'
        + json.dumps(info).replace("<", "\\u003c")
        + "</script>"
    )


def _rows(figures: Iterable[tuple[str, str]], info: Mapping[str, Any]) -> Iterator[str]:
    for name, words in figures:
        value: Any = info
        for key in name.split("."):
            value = value.get(key)
        if value is None:
            continue
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
        yield (
            f"<td>{words}</td>"
            f'<td class="number" data-name="{name}" data-value="{value}">{shown}</td>'
        )


def table(heads: Iterable[str], rows: Iterable[str]) -> Iterator[str]:
    """Yield a table; its rows are made of HTML already."""
    yield '<div class="rows"><table>'
    yield "<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"
    for row in rows:
        yield f"<tr>{row}</tr>"
    yield "</table></div>"
