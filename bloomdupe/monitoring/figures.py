"""Figures: the numbers of a job, as ``info``, ``top`` and the report show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.progress.pace import (
    duration,
    pages_lost,
    plural,
    recent,
    size,
    time_to_fill,
)
from bloomdupe.jobs import view as states
from bloomdupe.jobs.view import FINISHED, KILLED, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.jobs.view import View


FULL = 0.8
"""Share of the filter, or of the memory of Redis, from which on there is a warning."""
GOOD, WARN, BAD = "good", "warn", "bad"
"""Kinds of a text."""


class Said(NamedTuple):
    """A text, and its kind."""

    text: str
    kind: str = ""


class Figure(NamedTuple):
    """A figure: its name, its value, and more about it, the most important first."""

    name: str
    value: Said
    more: list[Said] = []  # noqa: RUF012 - nobody changes it


def figures(view: View) -> Iterator[Figure]:
    """Yield the figures that are known; a crawl that runs has forecasts."""
    runs = view.state.name == RUNNING
    pages = []
    if view.rate is not None and runs:
        kind = GOOD if view.rate >= 0.5 else WARN
        pages.append(Said(f"{view.rate:,.0f} a minute", kind))
    yield Figure("pages", Said(f"{view.pages:,}"), pages)
    yield Figure("items", Said(f"{view.totals.items:,}"))
    pending = Said(f"{view.pending:,}")
    yield Figure("pending", pending, [*_of_pending(view, runs=runs)])
    failed = len(view.failed.requests)
    causes = view.failed.reasons.most_common()
    more = [Said(f"{requests:,} {cause}") for cause, requests in causes]
    yield Figure("failed", Said(f"{failed:,}", BAD * bool(failed)), more)
    duplicates = view.totals.duplicates
    share = duplicates / max(1, duplicates + view.taken_in)
    of_links = [Said(f"{share:.0%} of all links")]
    yield Figure("skipped", Said(f"{duplicates:,}"), of_links)
    yield Figure("downloaded", Said(size(view.totals.bytes)))
    ran = [Said(plural(view.totals.runs, "run")), Said(f"round {view.round}")]
    if kills := [how for _, how in view.endings].count(KILLED):
        ran.insert(1, Said(f"{kills:,} killed"))
    yield Figure("ran for", Said(duration(view.seconds)), ran)
    last = view.last
    if last is not None:
        fill = last.seen / view.capacity
        filled = Said(f"{fill:.1%} full", WARN * (fill > FULL))
        yield Figure("filter", filled, [Said(pages_lost(last.loss))])
    if view.life.workers is not None:
        yield from _on_redis(view, view.life.workers)
    elif last is not None:
        disk = [Said(f"{size(last.free)} free")]
        filled_in = time_to_fill(recent(view.points), last)
        if runs and filled_in is not None:
            disk.append(Said(f"full in {duration(filled_in)}"))
        yield Figure("disk", Said(size(last.disk)), disk)
        checkpoint = Said(f"checkpoint {last.checkpoint * 1000:.0f} ms")
        yield Figure("memory", Said(size(last.memory)), [checkpoint])


def _of_pending(view: View, *, runs: bool) -> Iterator[Said]:
    if paused := view.slots.keys() & {*view.rules.paused}:
        yield Said(f"{len(paused):,} paused", WARN)
    if view.all_unavailable:
        yield Said("all backing off", WARN)
    elif runs and view.points:
        left = view.to_go
        if left is None:
            yield Said("no end in sight", WARN)
        else:
            yield Said(f"{duration(left)} to go", GOOD)
        if view.unavailable:
            yield Said(f"{len(view.unavailable):,} backing off", WARN)
    if view.slots:
        yield Said(plural(len(view.slots), "slot"))
    if view.delayed:
        yield Said(f"{view.delayed:,} delayed")
    yield Said(f"{view.taken_in:,} ever added")


def _on_redis(view: View, workers: dict[str, Any]) -> Iterator[Figure]:
    alive = [Said(plural(workers["partitions"], "partition"))]
    unowned = workers["unowned_partitions"]
    if unowned and view.state.name != FINISHED:
        alive.append(Said(f"{unowned:,} without a worker", WARN))
    yield Figure("workers", Said(f"{workers['workers']:,}"), alive)
    entries = plural(workers["output_entries"], "entry", "entries")
    yield Figure("output", Said(entries), [Said("to be collected")])
    memory, limit = workers["memory_bytes"], workers["memory_limit"]
    more = [Said("of this Redis")]
    if limit:
        more.append(Said(f"{size(limit)} at most", WARN * (memory > FULL * limit)))
    yield Figure("memory", Said(size(memory)), more)


GOES_ON = "Run the same command again: it goes on."
STATES = {
    states.RUNNING: (GOOD, ""),
    states.FINISHED: (GOOD, ""),
    states.STOPPED: (WARN, GOES_ON),
    states.KILLED: (BAD, GOES_ON),
    states.SILENT: (
        BAD,
        "A callback, a pipeline or an extension does not return. Nothing is lost if you"
        f" kill the process. {GOES_ON}",
    ),
    states.NOT_BEGUN: ("", "It begins with the first run."),
}
"""Kinds of states, and remedies; others are neither good nor bad, and need none."""
NO_WORKER = (
    "No worker is alive: the last hang, or were killed. Nothing is lost if you kill"
    " them. Start workers again: they go on."
)


def kind_of(view: View) -> str:
    """Return the kind of the state of a job; nothing if it is neither good nor bad."""
    kind, _ = STATES.get(view.state.name, ("", ""))
    return WARN if view.all_unavailable and kind == GOOD else kind


def remedy_of(view: View) -> str:
    """Return the remedy for the state of a job; empty if it needs none."""
    failed = view.failed
    if view.life.workers is not None and view.state.name == states.SILENT:
        return NO_WORKER
    none_succeeded = 0 < len(failed.requests) >= view.pages
    if view.state.name == states.FINISHED and none_succeeded:
        if not failed.option:
            return "No page was there: look at the start URLs."
        return f"Mend the cause, then run the crawl with -s {failed.option}."
    _, remedy = STATES.get(view.state.name, ("", ""))
    return remedy
