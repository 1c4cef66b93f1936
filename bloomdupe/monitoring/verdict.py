"""Verdict: the state of a job in a sentence, and the remedy if it needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import clock, duration, plural
from bloomdupe.jobs import state as states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.jobs.view import View

GOES_ON = "Run the same command again: it goes on."
REMEDIES = {
    states.STOPPED: GOES_ON,
    states.KILLED: GOES_ON,
    states.SILENT: (
        "A callback, a pipeline or an extension does not return. Nothing is lost if you"
        f" kill the process. {GOES_ON}"
    ),
    states.NOT_BEGUN: "It begins with the first run.",
}
NO_WORKER = (
    "No worker is alive: the last hang, or were killed. Nothing is lost if you kill"
    " them. Start workers again: they go on."
)


def remedy_of(view: View) -> str | None:
    """Return the remedy for the state of a job, if it needs one."""
    failed = view.failed
    if view.workers is not None and view.state.name == states.SILENT:
        return NO_WORKER
    none_succeeded = 0 < len(failed.requests) >= view.pages
    if view.state.name == states.FINISHED and none_succeeded:
        if not failed.option:
            return "No page was there: look at the start URLs."
        return f"Mend the cause, then run the crawl with -s {failed.option}."
    return REMEDIES.get(view.state.name)


def verdict(view: View) -> str:
    """Return a sentence on the job, and the remedy."""
    state = view.state
    head = state.text
    if state.name == states.STOPPED:
        head = f"{states.STOPPED} ({state.detail})"
    sentence = f"{head[0].upper()}{head[1:]}"
    if state.name != states.IN_USE:
        sentence += f": {', '.join(_facts(view))}"
    remedy = remedy_of(view)
    return f"{sentence}." if remedy is None else f"{sentence}. {remedy}"


def _facts(view: View) -> Iterator[str]:
    state = view.state
    if state.name != states.NOT_BEGUN:
        yield plural(view.pages, "page")
    if state.name == states.RUNNING and view.rate is not None:
        yield f"{view.rate:,.0f} a minute"
    if view.pending or state.name != states.FINISHED:
        yield f"{view.pending - view.later:,} pending{_hosts(view)}"
        if view.later:
            yield f"{view.later:,} scheduled for later"
    if state.name == states.RUNNING and view.to_go and not view.all_rest:
        yield f"{duration(view.to_go)} to go"
    failed = len(view.failed.requests)
    if failed:
        yield f"{failed:,} failed"


def _hosts(view: View) -> str:
    if not view.slots:
        return ""
    hosts = f" on {plural(len(view.slots), 'host')}"
    if not view.at_rest:
        return hosts
    if not view.all_rest:
        return f"{hosts} ({len(view.at_rest):,} resting)"
    ends = [rest.until for rest in view.resting.values()]
    if not ends:
        return f"{hosts}, {'which is' if len(view.slots) == 1 else 'all'} paused"
    until = clock(min(ends), view.state.read_at)
    if len(view.slots) == 1:
        return f"{hosts}, which rests until {until}"
    return f"{hosts}, which all rest, the first until {until}"
