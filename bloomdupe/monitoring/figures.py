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
        pages.append(Said(f"{view.rate:,.0f} a minute", remedy_of(view).kind))
    yield Figure("pages", Said(f"{view.pages:,}"), pages)
    yield Figure("items", Said(f"{view.totals.items:,}"))
    pending = Said(f"{view.pending:,}")
    yield Figure("pending", pending, [*_of_pending(view, runs=runs)])
    failed = len(view.failed.requests)
    more = [Said(f"{n:,} {cause}") for cause, n in view.failed.reasons.most_common()]
    yield Figure("failed", Said(f"{failed:,}", BAD * bool(failed)), more)
    duplicates = view.totals.duplicates
    share = duplicates / max(1, duplicates + view.taken_in)
    of_links = [Said(f"{share:.0%} of all links")]
    yield Figure("skipped", Said(f"{duplicates:,}"), of_links)
    yield Figure("downloaded", Said(size(view.totals.bytes)))
    ran = [Said(plural(view.totals.runs, "run")), Said(f"round {view.round}")]
    if kills := [*view.endings.values()].count(KILLED):
        ran.insert(1, Said(f"{kills:,} killed"))
    yield Figure("ran for", Said(duration(view.seconds)), ran)
    fill, last = view.filter.keys / view.filter.capacity, view.last
    filled = Said(f"{fill:.1%} full", WARN * (fill > FULL))
    yield Figure("filter", filled, [Said(pages_lost(view.filter.expected_loss))])
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
    if runs and view.points and not view.all_unavailable:
        left = view.to_go
        if left is None:
            yield Said("no end in sight", WARN)
        else:
            yield Said(f"{duration(left)} to go", GOOD)
    yield from (Said(text, WARN) for text in unavailable(view))
    if view.slots:
        yield Said(plural(len(view.slots), "host"))
    if view.delayed:
        yield Said(f"{view.delayed:,} delayed")
    yield Said(f"{view.taken_in:,} ever added")


def unavailable(view: View) -> Iterator[str]:
    """Yield how many slots with pending requests are paused, and how many back off."""
    paused = view.slots.keys() & {*view.rules.paused}
    backing_off = view.unavailable - paused
    for slots, what in ((paused, "paused"), (backing_off, "backing off")):
        if slots:
            number = "all" if len(slots) == len(view.slots) else f"{len(slots):,}"
            yield f"{number} {what}"


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
    states.FINISHED: Said("", GOOD),
    states.STOPPED: Said(GOES_ON, WARN),
    states.KILLED: Said(GOES_ON, BAD),
    states.SILENT: Said(
        "A callback, a pipeline or an extension does not return. Nothing is lost if you"
        f" kill the process. {GOES_ON}",
        BAD,
    ),
    states.NOT_BEGUN: Said("It begins with the first run."),
}
"""Remedies for states, and their kinds; others are neither good nor bad."""
NO_WORKER = (
    "No worker is alive: the last hang, or were killed. Nothing is lost if you kill"
    " them. Start workers again: they go on."
)


def remedy_of(view: View) -> Said:
    """Return the remedy for the state of a job, empty if it needs none, and its kind.

    The kind is that of the state.
    """
    name, failed = view.state.name, view.failed
    if name == RUNNING:
        stands_still = view.rate is not None and view.rate < 0.5
        return Said("", WARN if stands_still or view.all_unavailable else GOOD)
    if name == states.SILENT and view.life.workers is not None:
        return Said(NO_WORKER, BAD)
    pages_that_failed = sum(one.status is not None for one in failed.requests)
    if name == FINISHED and failed.requests and view.pages <= pages_that_failed:
        mend = f"Mend the cause, then run the crawl with -s {failed.option}."
        gone = "Every page is gone: look at the start URLs."
        return Said(mend if failed.option else gone, BAD)
    return STATES.get(name, Said(""))
