"""``backup``, ``verify`` and ``import``: stores are copied, checked and made."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.output import table
from bloomdupe.cli.verbs import DISK, INTERRUPTED, Answer, verb
from bloomdupe.crawl.added_requests import SEEN, TAKEN_IN
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import SettingError
from bloomdupe.filter.parameters import is_url
from bloomdupe.jobs.held import Problems

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator


@verb("backup crawls/site backup", "target", "--with-cookies", on=DISK)
def backup(options: Namespace) -> Answer:
    """Copy the last checkpoint of a store to a new directory, compacted.

    A crawl may be running. Cookies are secrets, and left out unless told; tokens in
    requests or in attributes of the spider are not.
    """
    from bloomdupe.filter.bloom import BloomFilter

    source, target = options.job.directory, options.target
    with BloomFilter.open(source, readonly=True) as seen:
        left_out = seen.backup(target, cookies=options.with_cookies)
        keys = len(seen)
    lines = [f"{target}: {plural(keys, 'URL')}"]
    if left_out:
        lines.append(
            f"{left_out:,} cookies are left out: a crawl that goes on from it may have"
            " to log in again (--with-cookies copies them)"
        )
    record = {"source": str(source), "target": target, "keys": keys}
    return Answer(lines, {**record, "cookies_left_out": left_out})


@verb("verify crawls/site", on=DISK, store_required=False)
def verify_store(options: Namespace) -> Answer:
    """Read all of a store and report its faults.

    Nothing is changed. No crawl may be running. The exit code is 1 if there is a
    fault.
    """
    from bloomdupe.store.format import last_backup
    from bloomdupe.store.lmdb.check import verify

    store = options.job.directory
    report = verify(store)
    problems = report.problems
    counted = report.counts.items()
    rows = [(f"  {name}", plural(count, "record")) for name, count in counted]
    end = f"Damaged: {last_backup(store)}."
    lines = [*table([("store", str(store)), *rows]), *problems]
    lines.append(end if problems else "Everything is as it was written.")
    record = {"store": str(store), "records": report.counts, "problems": problems}
    return Answer(lines, record, int(bool(problems)))


@verb(
    "import crawls/site --spider site --trust-pickles",
    "source",
    "--spider",
    "--trust-pickles",
    "--fingerprints-only",
    on=DISK,
)
def import_job(options: Namespace) -> Answer:
    """Make a job of the pending requests and the seen URLs in SOURCE.

    That is a JOBDIR that Scrapy's own scheduler has closed in good order, or the URL of
    a Redis on which scrapy-redis has run the crawl. Without SOURCE, it is STORE itself.
    Requests that cannot be read are printed and left out, and the exit code is 1. If
    this is interrupted, there is no job: run it again.
    """
    from bloomdupe.jobs.project import Project
    from bloomdupe.moving.imports import import_into, source_of

    problems = Problems()
    path, named = options.job.path, options.source or options.store
    project = Project.of_job(options.project_settings, options.spider, None, str(path))
    if not project.known:
        raise SettingError(
            f"--spider {options.spider!r}: its callbacks are needed, so call this in"
            " the folder of its project"
        )
    counts, remarks = import_into(
        path,
        project,
        source_of(named, project),
        trusted=options.trust_pickles,
        only_seen=options.fingerprints_only,
        problems=problems,
    )
    taken_in, seen = counts[TAKEN_IN], counts[SEEN]
    lines = [
        f"{plural(taken_in, 'request')} pending now",
        f"{plural(seen, 'URL counts', 'URLs count')} as seen",
        *remarks,
        *problems.lines(),
    ]
    if problems.count:
        lines.append(
            "SOURCE still has them: mend what is named, call `bloomdupe reset`, and"
            " import again"
        )
    record = {TAKEN_IN: taken_in, SEEN: seen, "remarks": remarks}
    record["problems"] = problems.as_dict()
    return Answer(lines, record, int(problems.count > 0))


@verb(
    "collect redis://localhost:6379/0#site output --follow --delete",
    "directory",
    "--follow",
    "--delete",
    "--rest",
    "--feed",
)
def collect(options: Namespace) -> Answer:
    """Write the output of a crawl into its feeds, each item once.

    Call it in the folder of the project. Of a crawl on Redis, relative paths of feeds
    begin in DIRECTORY. JSON lines and CSV grow while items come; other feeds get whole
    files when the crawl has ended. After any end, run it again: it goes on. Of a job in
    a directory, the feeds that wait for the end of the crawl get all items that are
    there now.
    """
    if is_url(options.store):
        if options.directory is None:
            raise SettingError("a crawl on Redis needs a DIRECTORY for the files")
        return _collect(options)
    if options.directory or options.follow or options.delete or options.rest:
        raise SettingError(
            "the feeds of a job in a directory have places of their own: DIRECTORY,"
            " --follow, --delete and --rest are for a crawl on Redis"
        )
    from bloomdupe.moving.delivering import deliver

    found = deliver(options.job, options.project_settings, options.feed or ())
    how = {True: " stored", False: ": not stored"}
    rows = (
        (one["uri"], plural(one["items"], "item") + how[one["stored"]]) for one in found
    )
    lines = table(rows) if found else ["All items are stored already."]
    bad = not all(one["stored"] for one in found)
    return Answer(lines, {"deliveries": found}, int(bad))


def _collect(options: Namespace) -> Answer:
    """Write the output in Redis into files."""
    from bloomdupe.moving.collecting import Collecting

    collecting = Collecting(
        options.store,
        Path(options.directory),
        options.project_settings,
        delete=options.delete,
        rest=options.rest,
        named=options.feed or (),
    )
    interrupted = False
    with closing(collecting):
        try:
            collecting.run(follow=options.follow)
        except KeyboardInterrupt:
            # The next call writes to the files what is committed.
            interrupted = True
    found = {"files": collecting.files, **collecting.result, "interrupted": interrupted}
    status = INTERRUPTED if interrupted else int(bool(found["failed"]))
    return Answer(_lines(found), found, status)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that each file has, and whether more are to come."""
    later = "kept here until the crawl has ended"
    if found["finished"]:
        later = "delivered"
    if found["undelivered"]:
        later = "not all delivered: the same command tries again"
    yield from table(
        (
            one["place"],
            f"{plural(one['added'], 'item')} added, "
            + (later if one["bytes"] is None else f"{one['bytes']:,} bytes now"),
        )
        for one in found["files"]
    )
    if found["deleted"]:
        yield f"deleted from Redis: {plural(found['deleted'], 'entry', 'entries')}"
    if found["interrupted"]:
        yield "Interrupted; the same command goes on."
    elif not found["finished"]:
        yield "The crawl has not ended: the same command collects the rest."
