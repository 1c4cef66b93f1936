"""Page: the parts of a report, in HTML that loads no other files."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from bloomdupe._version import __version__
from bloomdupe.monitoring.figures import Said
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1d2329;
  --soft: #57606a; --faint: #c8ccd0; --first: #1f6feb; --second: #c05621;
  --good: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161b; --card: #1a2028;
  --ink: #dde3ea; --soft: #97a3b0; --faint: #3d4650; --first: #6cb0ff;
  --second: #f0a35e; --good: #57c56f; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.6rem; } h2 { margin: 2rem 0 .5rem; font-size: 1.15rem; }
p { margin: .2rem 0; } .note { color: var(--soft); font-size: .87rem; }
code { overflow-wrap: anywhere; }
.verdict { margin: .8rem 0 .4rem; padding: .6rem .9rem; border-radius: .3rem;
  border-left: .35rem solid var(--first); background: var(--card);
  font-size: 1.07rem; }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); }
.verdict.warn { border-color: var(--second); }
.tiles { display: grid; gap: .7rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(12.5rem, 1fr)); }
.tiles div, figure { border-radius: .5rem; padding: .6rem .9rem;
  background: var(--card); }
.tiles div { color: var(--soft); font-size: .87rem; }
.tiles b { display: block; color: var(--ink); font-size: 1.25rem;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
i { font-style: normal; } i.bad { color: var(--bad); }
i.warn { color: var(--second); } i.good { color: var(--good); }
.charts { display: grid; gap: 1rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(21rem, 100%), 1fr)); }
figure { margin: 0; display: flex; flex-direction: column; gap: .6rem;
  justify-content: space-between; }
figure svg { display: block; width: 100%; height: auto; }
svg path { fill: none; } svg text { font-size: 10px; fill: var(--soft); }
figcaption b { font-size: 1.02rem; }
.rows { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
summary { margin: 2rem 0 0; font-size: 1.15rem; cursor: pointer; }
td, th { padding: .25rem 1.1rem .25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--faint); }
th { color: var(--soft); font-weight: 500; }
.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
td.host { overflow-wrap: anywhere; min-width: 9rem; }
td.url, td.reason { overflow-wrap: anywhere; min-width: 15rem; }
td.time { white-space: nowrap; }
@media (max-width: 40rem) {
  body { padding: 1rem; } td.time { white-space: normal; }
  .tiles { grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); }
  .tiles div { padding: .45rem .6rem; } .tiles b { font-size: 1.1rem; }
  tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--faint); }
  tr:first-child, td:empty { display: none; }
  td { display: inline-block; padding: 0 .6rem 0 0; border: 0; min-width: 0; }
  td.host, td.url, td.slow { display: block; }
  td::before { content: attr(data-head) " "; color: var(--soft); }
}
"""


NOTHING = "-"
"""A number in a table that is 0."""
CLASSES = {
    "host": "host", "reason": "reason", "for example": "url", "": "slow",
    "last": "time", "begun": "time", "ended, or last seen": "time",
    "how": "how", "status": "status",
}  # fmt: skip
"""Of the cells under these heads; under all others there are numbers."""


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


def figure(title: str, note: str, svg: str) -> str:
    """Return a picture under its title, and a note about it."""
    return (
        f'<figure role="img" aria-label="{text(title)}"><figcaption>'
        f'<b>{text(title)}</b><p class="note">{text(note)}</p></figcaption>'
        f"{svg}</figure>"
    )


def said(one: Said) -> str:
    """Return a text in the colour of its kind."""
    return f'<i class="{one.kind}">{text(one.text)}</i>' if one.kind else text(one.text)


def table(heads: Sequence[str], rows: Iterable[Sequence[str | Said]]) -> Iterator[str]:
    """Yield a table of texts, of which each row is a card on a narrow screen."""
    yield '<div class="rows"><table>'
    yield f"<tr>{''.join(f'<th{_class(one)}>{text(one)}</th>' for one in heads)}</tr>"
    for row in rows:
        yield f"<tr>{''.join(map(_cell, heads, row))}</tr>"
    yield "</table></div>"


def _cell(head: str, value: str | Said) -> str:
    shown = said(Said(value) if isinstance(value, str) else value)
    return f'<td{_class(head)} data-head="{text(head)}">{shown}</td>'


def _class(head: str) -> str:
    return f' class="{CLASSES.get(head, "number")}"'
