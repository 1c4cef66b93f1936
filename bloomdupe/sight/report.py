"""Report: a job as one page that needs nothing else, in HTML."""

from __future__ import annotations

import json
import time
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bloomdupe._version import __version__
from bloomdupe.crawl.history import KILLED
from bloomdupe.crawl.pace import duration, size
from bloomdupe.crawl.progress import pages_lost
from bloomdupe.crawl.run import OPEN
from bloomdupe.sight.charts import charts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bloomdupe.crawl.history import Ran
    from bloomdupe.sight.drawing import Chart
    from bloomdupe.sight.view import View

__all__ = ["report"]

MOST_RUNS = 200
MOST_FAILURES = 100
"""Rows of a table, the last ones."""

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

FIGURES: tuple[tuple[str, str], ...] = (
    ("job.pages", "pages done"),
    ("job.items", "items"),
    ("job.pending", "requests waiting"),
    ("job.later", "of these, for a point in time"),
    ("job.taken_in", "requests ever taken in"),
    ("job.slots", "slots with requests"),
    ("job.runs", "runs"),
    ("job.round", "round"),
    ("job.seconds", "seconds that it was running"),
    ("keys", "URLs seen"),
    ("capacity", "expected URLs (n)"),
    ("fpp", "false-positive probability (p), given"),
    ("current_fpp", "the same, calculated for now"),
    ("expected_loss", "new URLs dropped, expected number"),
    ("exact_keys", "keys kept exactly"),
    ("disk_bytes", "bytes of the store"),
)
"""Names in ``bloomdupe info --json``, and in words."""


def report(view: View, info: Mapping[str, Any]) -> str:
    """Return the page; ``info`` is what ``bloomdupe info --json`` prints."""
    title = f"Crawl of {view.spider}"
    drawn = list(charts(view, info["layers"]))
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(_state(view))}</p>",
        f'<p class="note">{escape(str(view.path))}, as of'
        f" {_when(view.job.checkpoint_at)}</p>",
        '<div class="tiles">',
        *(f"<div>{name}<b>{escape(value)}</b></div>" for name, value in _tiles(view)),
        "</div>",
    ]
    if not view.points:
        parts.append(
            "<p>There are no charts over time: the job was made by an earlier version,"
            " and has not run since.</p>"
        )
    parts += ['<div class="charts">', *map(_figure, drawn), "</div>"]
    parts += _runs(view)
    parts += _failures(view)
    parts += [
        "<h2>In figures</h2>",
        '<p class="note">The same as <code>bloomdupe info --json</code>.</p>',
        *_table(("", ""), _rows(info)),
        '<script type="application/json" id="info">'
        + json.dumps(info).replace("<", "\\u003c")
        + "</script>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'; img-src data:\">\n"
        f'<meta name="generator" content="bloomdupe {__version__}">\n'
        f'<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _state(view: View) -> str:
    job = view.job
    if view.running:
        return "It is running."
    if job.last_run == "finished":
        when = "" if job.finished_at is None else f" on {_when(job.finished_at)}"
        return f"It was finished{when}."
    if job.last_run == OPEN:
        return "It was killed. The same command goes on with it."
    return f"It was stopped: {job.last_run}. The same command goes on with it."


def _tiles(view: View) -> Iterator[tuple[str, str]]:
    job, totals = view.job, view.totals
    yield "pages", f"{totals.pages:,}"
    yield "items", f"{totals.items:,}"
    yield "waiting", f"{job.pending:,}"
    yield "failed", f"{len(view.failed.requests):,}"
    yield "links dropped", f"{totals.duplicates:,}"
    yield "downloaded", size(totals.bytes)
    yield "running for", duration(job.seconds)
    yield "runs", f"{job.runs:,}"
    yield "kills", f"{sum(how == KILLED for _, how in _ended(view)):,}"
    if view.last is not None:
        yield "filter", f"{view.last.seen / view.capacity:.1%}"
        yield "lost by it", pages_lost(view.last.loss).replace("no page lost", "none")


def _ended(view: View) -> Iterator[tuple[Ran, str]]:
    """Yield runs, and how they have ended."""
    for ran in view.runs:
        running = view.running and ran is view.runs[-1]
        how = ran.how
        if how == OPEN:
            how = "running" if running else KILLED
        yield ran, how


def _figure(chart: Chart) -> str:
    drawn = chart.svg or "<p>None.</p>"
    return (
        f'<figure role="img" aria-label="{escape(chart.title)}"><figcaption>'
        f"<b>{escape(chart.title)}</b>"
        f'<p class="note">{escape(chart.note)}</p></figcaption>{drawn}</figure>'
    )


def _runs(view: View) -> Iterator[str]:
    if not view.runs:
        return
    points = view.points
    last = {point.run: point for point in points}
    # A run that was killed has done what the next one begins with.
    done = dict(last)
    done.update((a.run, b) for a, b in pairwise(points) if a.run != b.run)
    first = {point.run: point for point in reversed(points)}
    rows = []
    for ran, how in list(_ended(view))[-MOST_RUNS:]:
        pages = ended = ""
        if ran.number in last:
            pages = f"{done[ran.number].pages - first[ran.number].pages:,}"
            ended = _when(ran.ended or last[ran.number].time)
        kind = ' class="killed"' if how == KILLED else ""
        rows.append(
            f'<td class="number">{ran.number}</td><td>{_when(ran.begun)}</td>'
            f"<td>{ended}</td><td{kind}>{escape(how)}</td>"
            f'<td class="number">{pages}</td>'
        )
    yield "<h2>Runs</h2>"
    yield from _table(("run", "begun", "ended, or last seen", "how", "pages"), rows)


def _failures(view: View) -> Iterator[str]:
    if not view.failed.requests:
        return
    yield "<h2>Failures</h2>"
    shown = view.failed.requests[:MOST_FAILURES]
    gone = f" {view.failed.left:,} older ones have left." if view.failed.left else ""
    yield (
        f'<p class="note">The last {len(shown):,} of'
        f" {len(view.failed.requests):,}.{gone}</p>"
    )
    yield from _table(
        ("URL", "reason", "detail", "times", "last", "linked from"),
        (
            f'<td class="url">{escape(one.url)}</td>'
            f"<td>{escape(one.reason)}</td><td>{escape(one.detail)}</td>"
            f'<td class="number">{one.times:,}</td><td>{_when(one.time)}</td>'
            f'<td class="url">{escape(one.parent or "")}</td>'
            for one in shown
        ),
    )


def _rows(info: Mapping[str, Any]) -> Iterator[str]:
    for name, words in FIGURES:
        value: Any = info
        for key in name.split("."):
            value = value[key]
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
        yield (
            f"<td>{words}</td>"
            f'<td class="number" data-name="{name}" data-value="{value}">{text}</td>'
        )


def _table(heads: Iterable[str], rows: Iterable[str]) -> Iterator[str]:
    yield '<div class="rows"><table>'
    yield "<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"
    for row in rows:
        yield f"<tr>{row}</tr>"
    yield "</table></div>"


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
