"""The verbs that change which requests a job holds, or remove it."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.output import warn
from bloomdupe.cli.showing import reasons_of, warn_if_unknown
from bloomdupe.cli.verbs import FAILED, REQUESTS, SELECTION, Answer, verb
from bloomdupe.crawl.added_requests import BLOCKED, SEEN, TAKEN_IN
from bloomdupe.crawl.progress.pace import duration, plural
from bloomdupe.crawl.state.rules import described, rule_of
from bloomdupe.errors import SettingError
from bloomdupe.jobs.held import Problems
from bloomdupe.jobs.listed import Selection
from bloomdupe.requests.layout import url_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.jobs.held import Counts
    from bloomdupe.jobs.job import Removed
    from bloomdupe.jobs.project import Project


@verb(
    "add crawls/site --from urls.txt --callback parse_item",
    *REQUESTS,
    "--callback",
    "--priority",
    "--spider",
)
def add(options: Namespace) -> Answer:
    """Add URLs to a job, unless it has seen them; `requeue` is for those.

    They come after the other pending requests of their priority, in the given order.
    Lines that are no URLs are printed with their numbers, and the exit code is 1; all
    other lines are added. A running crawl takes them in at its next checkpoint, and
    logs their numbers. If this is interrupted, run it again.
    """
    problems, job = Problems(), options.job
    project = job.project(options.project_settings, options.spider, new=True)
    counts = job.add(project, _found(options, project, problems, start=True))
    return _answer(counts, problems)


@verb(
    "requeue crawls/site https://example.com/a --callback parse_item",
    *REQUESTS,
    *SELECTION,
    *FAILED,
    "--callback",
    "--priority",
)
def requeue(options: Namespace) -> Answer:
    """Make pages pending again that are done, or have failed.

    A job does not keep the URLs of pages that are done, so name them; --slot and
    --pattern select among them. For URLs that were never seen, use `add`. With
    --failed, failed requests become pending again, with their retries. If the job runs,
    stop it, requeue, and start it again: it goes on where it was.
    """
    problems, selection = Problems(), Selection.of(options.slot, options.pattern)
    reasons = reasons_of(options)
    if reasons is not None and (options.urls or options.file is not None):
        raise SettingError("--failed goes without URLs and --from")
    project = options.job.project(options.project_settings)
    with closing(options.job.changing(project)) as job:
        if reasons is not None:
            counts = job.requeue_failed(selection, reasons, problems)
        else:
            found = _found(options, project, problems)
            chosen = (
                one for one in found if selection.has(one.slot, url_of(one.payload))
            )
            counts = job.requeue(chosen, project)
    return _answer(counts, problems)


@verb("drop crawls/site --slot example.com --pattern '[?]sort='", "urls", *SELECTION)
def drop(options: Namespace) -> Answer:
    """Remove the pending requests that match all of these: URLs, a slot, a pattern.

    They stay seen, so no link adds them again; `requeue` does, and `block` keeps new
    requests out. If the job runs, stop it, drop, and start it again: it goes on where
    it was. If this is interrupted, run it again.
    """
    if not (options.urls or options.slot or options.pattern):
        raise SettingError(
            "no requests are selected: name URLs, --slot, or --pattern (`--pattern"
            " .` selects all)"
        )
    selection = Selection.of(options.slot, options.pattern)
    project, pages = None, set()  # slots and patterns need neither it nor Scrapy
    if requests := _requests(options.urls):
        project = options.job.project(options.project_settings)
        pages = {project.key_of(one)[0] for one in requests}
    with closing(options.job.changing(project)) as job:
        dropped = job.drop(selection, project, pages)
        left = job.pending
    line = f"{dropped:,} removed, {left:,} pending"
    return Answer([line], {"dropped": dropped, "left": left})


def _found(
    options: Namespace, project: Project, problems: Problems, **fields: Any
) -> Iterator[SentRequest]:
    """Yield the given requests; lines that cannot be read become problems."""
    from bloomdupe.jobs.request_line import lines_of, read_all

    project.check_method("--callback", options.callback)
    fields |= {"callback": options.callback, "priority": options.priority}
    lines = lines_of(options.urls, options.file, problems)
    return read_all(lines, project, problems, **fields)


RESULTS = {
    "handed_over": (
        "request",
        "requests",
        "handed to the running crawl, which logs what it adds",
    ),
    TAKEN_IN: ("pending", "pending", "now"),
    SEEN: ("was", "were", "seen before: skipped"),
    "was_pending": ("was", "were", "pending already: not added"),
    "unseen": ("was", "were", "never seen: use `bloomdupe add`"),
    BLOCKED: ("is", "are", "blocked: `bloomdupe block --undo` deletes a rule"),
}
"""What may become of requests, in the order in which it is said, and in words."""


def _answer(counts: Counts, problems: Problems) -> Answer:
    """Answer with the counts; 1 if a request was not read, not known, or blocked."""
    lines = [
        f"{plural(counts[name], one, many)} {what}"
        for name, (one, many, what) in RESULTS.items()
        if counts[name] or (name == TAKEN_IN and not counts["handed_over"])
    ]
    lines += problems.lines()
    record = {name: counts[name] for name in RESULTS} | {"broken": problems.as_dict()}
    bad = problems.count + counts["unseen"] + counts[BLOCKED]
    return Answer(lines, record, int(bad > 0))


# Rules, which a job obeys whether it runs or not


@verb("block crawls/site --slot calendar.example.com", "urls", *SELECTION, "--undo")
def block(options: Namespace) -> Answer:
    """Keep requests out of a job, now and in all later runs.

    They are those for these URLs, of a slot, or with a pattern in their URLs (with
    both, if both are given). They are not marked as seen, but for pending requests,
    which go when their turn comes. `info` shows the rules. A running crawl obeys at its
    next checkpoint.
    """
    given = {"slot": options.slot, "pattern": options.pattern}
    given = {name: value for name, value in given.items() if value}
    if bool(given) == bool(options.urls):
        raise SettingError("name URLs, each a rule by itself, or --slot or --pattern")
    Selection.of(options.slot, options.pattern)  # or it is refused
    rules = [rule_of(one.url) for one in _requests(options.urls)] or [given]
    return _ruled(options, "blocked", rules, undo=options.undo)


@verb("pause crawls/site --slot slow.example.com", "--slot")
def pause(options: Namespace) -> Answer:
    """Give a slot (host) no requests, now and in later runs, until `resume`.

    The job need not have it yet, and links to it are accepted. A crawl does not end
    while only requests of paused slots are pending. A running crawl obeys at its next
    checkpoint.
    """
    return _paused(options, undo=False)


@verb("resume crawls/site --slot slow.example.com", "--slot")
def resume(options: Namespace) -> Answer:
    """Give a paused slot (host) requests again.

    A running crawl obeys at its next checkpoint.
    """
    return _paused(options, undo=True)


def _paused(options: Namespace, *, undo: bool) -> Answer:
    if options.slot is None:
        raise SettingError(f"--slot SLOT names the slot to {options.verb}")
    answer = _ruled(options, "paused", [options.slot], undo=undo)
    warn_if_unknown(options.job, options.slot)
    return answer


def _ruled(options: Namespace, kind: str, given: list[Any], *, undo: bool) -> Answer:
    def changed(there: Rules) -> Rules:
        return (there.removing if undo else there.adding)(kind, given)

    rules, obeyed = options.job.change_rules(changed)
    record = {name: rules.values[name] for name in ("blocked", "paused")}
    lines = [f"{kind}: {described(one)}" for one in record[kind]]
    return Answer([*(lines or [f"Nothing is {kind}."]), obeyed], record)


def _requests(urls: list[str]) -> list[Any]:
    """Return requests for URLs, of Scrapy, which is not needed for none."""
    if not urls:
        return []
    from bloomdupe.jobs.request_line import checked

    try:
        return [*map(checked, urls)]
    except ValueError as error:
        raise SettingError(str(error)) from error


# The end of a run, and of a job


@verb("stop crawls/site", "--wait")
def stop(options: Namespace) -> Answer:
    """End a running crawl, as Ctrl-C does in its terminal.

    Requests in flight are finished, and pending requests stay for the next run. If
    nothing is pending then, the crawl is finished. The same command starts it again, as
    soon as it has ended: --wait waits for that.
    """
    life = options.job.life()
    if (silence := life.silence(time.time())) is not None:
        for_long = f"No heartbeat for {duration(silence)} ({life.owner})"
        warn(f"{for_long}: kill it if it hangs, nothing is lost")
    processes = len(options.job.stop(wait=options.wait).names)
    ends = plural(processes, "process ends", "processes end")
    line = f"{ends} when the requests in flight are done"
    if options.wait:
        line = f"{plural(processes, 'process has', 'processes have')} ended"
    return Answer([line], {"processes": processes, "ended": options.wait})


@verb("reset crawls/site", "--yes")
def reset(options: Namespace) -> Answer:
    """Remove the store of a job that does not run, and spider.state.

    The next run begins anew then; output files stay. The contents are shown first, and
    confirmed by typing yes, or by --yes. Of a crawl on Redis, all keys are removed,
    output that was not collected included.
    """
    removed: Removed = options.job.remove((lambda _: None) if options.yes else _confirm)
    line = f"removed: {', '.join(removed.places)}: {removed.contents}"
    return Answer([line], {"removed": removed.places, "held": removed.contents})


def _confirm(removed: Removed) -> None:
    names, held = ", ".join(removed.places), removed.contents
    if sys.stdin is None or not sys.stdin.isatty():
        raise SettingError(
            f"this removes {names}: {held}. There is no terminal to confirm it; --yes"
            " does"
        )
    warn(f"This removes {names}: {held}.")
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != "yes":
        raise SettingError("nothing was removed")
