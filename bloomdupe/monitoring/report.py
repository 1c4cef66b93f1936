"""Report: a job as one page of HTML that loads no other files."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import plural, size, when
from bloomdupe.crawl.state.failures import PAGE_CAME
from bloomdupe.jobs import view as states
from bloomdupe.jobs.view import MOST_SLOTS, first_of, slot_name
from bloomdupe.monitoring.charts import charts
from bloomdupe.monitoring.figures import (
    BAD,
    WARN,
    Said,
    figures,
    remedy_of,
    unavailable,
)
from bloomdupe.monitoring.page import NOTHING, page, said, table, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bloomdupe.jobs.view import View
    from bloomdupe.monitoring.figures import Figure


MOST = 3
"""Texts beside a figure."""
FIRST_CHARTS = 3
"""Charts to see at once; the others are folded."""
NO_CHARTS = "There are no charts before the crawl has run for some seconds."
MARKS = (
    "Bands: a host backed off. Dotted lines: a run ended. Dashed lines: it was killed."
)
MORE = "<details><summary>More charts, and the status codes</summary>"


def report(view: View) -> str:
    """Return the page."""
    title = f"Crawl of {view.spider}"
    drawn, note = [*charts(view)], MARKS
    if view.life.workers is not None:
        note += " All but the rate is of the leader, and not of the other workers."
    rest = [*_charts(drawn[FIRST_CHARTS:]), *statuses(view)]
    return page(
        title,
        [
            f"<h1>{text(title)}</h1>",
            f'<p class="verdict {remedy_of(view).kind}">{text(verdict(view))}</p>',
            f'<p class="note">{text(view.place)}, as of {when(view.state.read_at)}</p>',
            '<div class="tiles">',
            *map(_tile, figures(view)),
            "</div>",
            *runs(view),
            *failures(view),
            *hosts(view),
            "<h2>Over time</h2>",
            f'<p class="note">{note if drawn else NO_CHARTS}</p>',
            *_charts(drawn[:FIRST_CHARTS]),
            *([MORE, *rest, "</details>"] if drawn else rest),
        ],
    )


def verdict(view: View) -> str:
    """Return a sentence on the job, and the remedy."""
    head, in_use = view.state.text, view.state.name == states.IN_USE
    facts = "" if in_use else f" {', '.join(_facts(view))}."
    return f"{head[0].upper()}{head[1:]}.{facts} {remedy_of(view).text}".rstrip()


def _facts(view: View) -> Iterator[str]:
    """Yield how much is done and left; all other figures stand by themselves."""
    state, pending = view.state.name, view.pending - view.delayed
    if state != states.NOT_BEGUN:
        yield plural(view.pages, "page")
    if pending or state != states.FINISHED:
        hosts = f" on {plural(len(view.slots), 'host')}" if view.slots else ""
        yield ", ".join([f"{pending:,} pending{hosts}", *unavailable(view)])
    if view.delayed:
        yield f"{view.delayed:,} delayed"
    if failed := len(view.failed.requests):
        yield f"{failed:,} failed"


def _charts(drawn: Sequence[str]) -> Iterator[str]:
    if drawn:
        yield from ('<div class="charts">', *drawn, "</div>")


def _tile(figure: Figure) -> str:
    value, more = said(figure.value), ", ".join(map(said, figure.more[:MOST]))
    return f"<div>{text(figure.name)}<b>{value}</b>{more}</div>"


MOST_RUNS = 200
MOST_GROUPS = 50
TWICE = " Items that pages with a failed callback or pipeline have yielded come twice."
OTHERS = "(not counted by host)"


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
    yield from table(
        ("requests", "reason", "host", "last", "for example"),
        (
            (
                f"{requests:,}",
                ": ".join(filter(None, (last.in_words, last.exception))),
                slot_name(last.slot),
                when(last.time),
                last.url,
            )
            for last, requests in groups[:MOST_GROUPS]
        ),
    )
    if len(groups) > MOST_GROUPS:
        more = len(groups) - MOST_GROUPS
        yield f'<p class="note">{more:,} smaller groups are not shown.</p>'
    gone = f"; {failed.left:,} older ones were removed" if failed.left else ""
    yield f'<p class="note"><code>bloomdupe list --failed</code> names all{gone}.</p>'


def hosts(view: View) -> Iterator[str]:
    """Yield the slots: pages and bytes, failures, pending requests, and backoffs."""
    totals, failed = view.totals, view.failed.slots
    counted = totals.by_slot
    names = view.slots.keys() | counted.keys() | failed.keys()
    if not names:
        return
    pages = {name: pages for name, (pages, _) in counted.items()}
    order = first_of(names, MOST_SLOTS, view.slots, pages)
    yield "<h2>Hosts</h2>"
    if len(names) > len(order):
        yield (
            f'<p class="note">The {len(order):,} with the most pending requests, of'
            f" {len(names):,}.</p>"
        )
    rows: list[tuple[str | Said, ...]] = [
        (
            slot_name(one),
            _count(view.slots.get(one, 0)),
            Said(_count(failed[one]), BAD * (one in failed)),
            *_pages_and_bytes(*counted.get(one, (0, 0))),
            Said(view.slowness(one), WARN * (one in view.unavailable)),
        )
        for one in order
    ]
    shown = [counted[one] for one in order if one in counted]
    if others := totals.pages - sum(pages for pages, _ in shown):
        size_of_others = totals.bytes - sum(size for _, size in shown)
        rows.append((OTHERS, "", "", *_pages_and_bytes(others, size_of_others), ""))
    yield from table(("host", "pending", "failed", "pages", "size", ""), rows)


def _pages_and_bytes(pages: int, total: int) -> tuple[str, str]:
    return _count(pages), size(total) if pages else NOTHING


def _count(number: int) -> str:
    return f"{number:,}" if number else NOTHING


def runs(view: View) -> Iterator[str]:
    """Yield the runs of the job, the last runs if there are many."""
    points, rows = view.present, []
    if not points:
        return
    last = {point.run: point for point in points}
    # The counts at the next run's beginning are those at a killed run's end.
    done = dict(last)
    done.update((a.run, b) for a, b in pairwise(points) if a.run != b.run)
    first = {point.run: point for point in reversed(points)}
    for run, how in [*view.endings.items()][-MOST_RUNS:]:
        pages = f"{done[run].pages - first[run].pages:,}"
        begun, ended = when(first[run].time), when(last[run].time)
        rows.append((str(run), begun, ended, how, pages))
    yield "<h2>Runs</h2>"
    yield from table(("run", "begun", "ended, or last seen", "how", "pages"), rows)


def statuses(view: View) -> Iterator[str]:
    """Yield the pages by the status of their response, over all runs."""
    if counts := view.totals.statuses:
        yield "<h2>Status codes</h2>"
        rows = ((status, f"{count:,}") for status, count in sorted(counts.items()))
        yield from table(("status", "pages"), rows)
