"""Verdict: the state of a job in a sentence, and the remedy if it needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import plural
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
    """Yield how much is done and left; all other figures stand by themselves."""
    state, pending = view.state.name, view.pending - view.later
    if state != states.NOT_BEGUN:
        yield plural(view.pages, "page")
    if pending or state != states.FINISHED:
        rest = ", all at rest" if view.all_rest else ""
        hosts = f" on {plural(len(view.slots), 'host')}" if view.slots else ""
        yield f"{pending:,} pending{hosts}{rest}"
    if view.later:
        yield f"{view.later:,} scheduled for later"
    if failed := len(view.failed.requests):
        yield f"{failed:,} failed"
