"""Report: a job as one page of HTML that loads no other files."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from bloomdupe._version import __version__
from bloomdupe.crawl.progress.pace import local, plural, size, zone
from bloomdupe.crawl.state.failures import PAGE_CAME, in_words
from bloomdupe.jobs.figures import figures, kind_of, remedy_of
from bloomdupe.jobs.view import MOST_SLOTS, slot_name
from bloomdupe.monitoring.charts import charts
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bloomdupe.jobs.figures import Figure
    from bloomdupe.jobs.view import View
    from bloomdupe.monitoring.charts import Chart


MOST = 3
"""Texts beside a figure."""
FIRST_CHARTS = 3
"""Charts to see at once; the others are folded."""
MOST_RUNS = 200
MOST_GROUPS = 50
TWICE = " Items that pages with a failed callback or pipeline have yielded come twice."


def report(view: View) -> str:
    """Return the page."""
    title = text(f"Crawl of {view.spider}")
    state, remedy = view.state.text, remedy_of(view)
    verdict = f"{state[0].upper()}{state[1:]}." + (f" {remedy}" if remedy else "")
    drawn = [*charts(view)]
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="verdict {kind_of(view)}">{text(verdict)}</p>',
        f'<p class="note">{text(view.place)}, as of {local(view.state.read_at)}. All'
        f" times are in {text(zone())}.</p>",
        '<div class="tiles">',
        *map(_tile, figures(view)),
        "</div>",
        *runs(view),
        *failures(view),
        *hosts(view),
        *_charts(drawn[:FIRST_CHARTS]),
        "<details><summary>More</summary>",
        *_charts(drawn[FIRST_CHARTS:]),
        *statuses(view),
        "</details>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'; img-src data:\">\n"
        f'<meta name="generator" content="bloomdupe {__version__}">\n'
        f'<link rel="icon" href="data:,">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def text(words: str) -> str:
    """Return words escaped for HTML; all text from outside passes through here."""
    return escape(printable(words))


def _charts(drawn: Sequence[Chart]) -> Iterator[str]:
    yield '<div class="charts">'
    for title, note, svg in drawn:
        yield (
            f'<figure role="img" aria-label="{title}"><figcaption><b>{title}</b>'
            f'<p class="note">{note}</p></figcaption>{svg}</figure>'
        )
    yield "</div>"


def _tile(figure: Figure) -> str:
    kind = f' class="{figure.value.kind}"' * bool(figure.value.kind)
    more = (f'<i class="{one.kind}">{text(one.text)}</i>' for one in figure.more[:MOST])
    value = f"<b>{text(figure.value.text)}</b>"
    return f"<div{kind}>{text(figure.name)}{value}{', '.join(more)}</div>"


def table(heads: dict[str, str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table of texts; ``heads`` are its columns, and the classes of cells."""
    yield '<div class="rows"><table>'
    for tag, row in (("th", heads), *(("td", row) for row in rows)):
        cells = (
            f'<{tag} class="{kind}">{text(cell)}</{tag}>'
            for kind, cell in zip(heads.values(), row, strict=True)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table></div>"


def failures(view: View) -> Iterator[str]:
    """Yield the failed requests by reason, exception and slot, the largest first."""
    failed = view.failed
    if not failed.requests:
        return
    groups = failed.groups
    twice = TWICE if any(one.reason in PAGE_CAME for one in failed.requests) else ""
    yield f"<h2>Failures: {plural(len(failed.requests), 'request')}</h2>"
    if failed.option:
        yield (
            '<p class="note">Mend the cause, then run the crawl with <code>-s'
            f" {text(failed.option)}</code>.{twice}</p>"
        )
    heads = {"requests": "number", "reason": "reason", "host": "host", "last": "time"}
    yield from table(
        {**heads, "for example": "url"},
        (
            (
                f"{group.requests:,}",
                _reason(group.reason, group.status, group.exception),
                slot_name(group.slot),
                local(group.time),
                group.url,
            )
            for group in groups[:MOST_GROUPS]
        ),
    )
    if len(groups) > MOST_GROUPS:
        more = len(groups) - MOST_GROUPS
        yield f'<p class="note">{more:,} smaller groups are not shown.</p>'
    gone = f"; {failed.left:,} older ones were removed" if failed.left else ""
    yield f'<p class="note"><code>bloomdupe list --failed</code> names all{gone}.</p>'


def _reason(reason: str, status: int | None, exception: str) -> str:
    if reason == "status":
        return in_words(reason, status)
    return f"{reason}: {exception}" if exception else reason


def hosts(view: View) -> Iterator[str]:
    """Yield the slots: pages and bytes, failures, pending requests, and rests."""
    counted, failed, pending = view.totals.by_slot, view.failed.slots, view.slots
    order = sorted(
        pending.keys() | counted.keys() | failed.keys(),
        key=lambda one: (-pending.get(one, 0), -counted.get(one, (0, 0))[0], one),
    )
    if not order:
        return
    rows = []
    for one in order[:MOST_SLOTS]:
        pages, total = counted.get(one, (0, 0))
        counts = f"{pending.get(one, 0):,}", f"{failed.get(one, 0):,}", f"{pages:,}"
        rows.append((slot_name(one), *counts, size(total), view.slowness(one)))
    yield f"<h2>Hosts: {len(order):,}</h2>"
    heads = {"host": "host", "pending": "number", "failed": "number", "pages": "number"}
    yield from table({**heads, "size": "number", "": "slow"}, rows)


def runs(view: View) -> Iterator[str]:
    """Yield the runs of the job, the last runs if there are many."""
    if not view.runs:
        return
    last = {point.run: point.time for point in view.present}
    rows = [
        (str(ran.number), local(ran.begun), local(ended) if ended else "", how)
        for ran, how in view.endings[-MOST_RUNS:]
        for ended in [ran.ended or last.get(ran.number)]
    ]
    yield "<h2>Runs</h2>"
    heads = {"run": "number", "begun": "time", "ended, or last seen": "time"}
    yield from table({**heads, "how": ""}, rows)


def statuses(view: View) -> Iterator[str]:
    """Yield the pages by the status of their response, over all runs."""
    if counts := view.totals.statuses:
        yield "<h2>Status codes</h2>"
        rows = ((status, f"{count:,}") for status, count in sorted(counts.items()))
        yield from table({"status": "", "pages": "number"}, rows)


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
  grid-template-columns: repeat(auto-fill, minmax(8.4rem, 1fr)); }
.tiles div, figure { border-radius: .5rem; padding: .6rem .9rem;
  background: var(--card); }
.tiles div { color: var(--soft); font-size: .87rem; }
.tiles b { display: block; color: var(--ink); font-size: 1.35rem;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.tiles i { font-style: normal; } .tiles .bad b, i.bad { color: var(--bad); }
i.warn { color: var(--second); } i.good { color: var(--good); }
.charts { display: grid; gap: 1rem; margin-top: 2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(21rem, 100%), 1fr)); }
figure { margin: 0; } figure svg { display: block; width: 100%; height: auto; }
svg * { fill: none; stroke-width: 1.5; } svg path { stroke: var(--faint); }
svg text { font-size: 10px; fill: var(--soft); }
figcaption { min-height: 3.9rem; } figcaption b { font-size: 1.02rem; }
.rows { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
summary { margin: 2rem 0 0; font-size: 1.15rem; cursor: pointer; }
td, th { padding: .25rem 1.1rem .25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--faint); }
th { color: var(--soft); font-weight: 500; }
.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
td.slow { color: var(--second); } td.host { overflow-wrap: anywhere; min-width: 9rem; }
td.url, td.reason { overflow-wrap: anywhere; min-width: 15rem; }
td.time { white-space: nowrap; }
"""
