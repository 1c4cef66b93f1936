"""The verbs: a table of their arguments, and of the functions behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of SIGINT."""

DISK = ("a JOBDIR, or the directory of a store",)
BOTH = (*DISK, "the URL of a crawl on Redis")
"""What a verb may be called on, as a user names it."""


class Answer(NamedTuple):
    """The result of a verb.

    A verb that changes a job has made all its changes before it answers, so a reader
    that stops early stops no change. A verb that only reads may read while it prints.
    """

    lines: Iterable[str]
    record: dict[str, Any] | Iterator[dict[str, Any]]
    """The same as JSON; an iterator gives an object for each line."""
    status: int = 0


class Verb(NamedTuple):
    """A verb."""

    name: str
    action: str
    """Module and function, which is imported when it is called. It takes the parsed
    options, in which ``job`` is the job that ``store`` names, and returns an
    :class:`Answer`, or raises :class:`~bloomdupe.errors.BloomDupeError`.
    """
    on: tuple[str, ...]
    """What it may be called on; none: it has no argument ``store``."""
    description: str
    """Its first part is for the list of verbs."""
    example: str
    """The arguments of an example call, without the name of the program."""
    options: tuple[str, ...] = ()
    """Names of all but ``store``, which comes before them, and ``--json``."""
    store_required: bool = True
    """Whether the store must be named, even if the project has a JOBDIR."""


OPTIONS: dict[str, str | dict[str, Any]] = {
    "urls": {"nargs": "*", "metavar": "URL", "help": "such as https://a.example/"},
    "--from": {
        "dest": "file",
        "metavar": "FILE",
        "help": "a file with a URL or a JSON object on each line; - is standard input",
    },
    "--callback": {
        "metavar": "NAME",
        "default": "parse",
        "help": "the spider's method for the responses (default: %(default)s)",
    },
    "--priority": {
        "type": int,
        "metavar": "N",
        "default": 0,
        "help": "higher ones go first (default: %(default)s)",
    },
    "--slot": {
        "metavar": "SLOT",
        "help": "only requests of this slot (a host, unless the project names others)",
    },
    "--pattern": {
        "metavar": "REGEX",
        "help": "only URLs in which this regular expression is found",
    },
    "--failed": "failed requests, instead of the others",
    "--reason": {
        "metavar": "REASON",
        "help": "only requests that failed for this reason: an HTTP status such as 503,"
        " or one that `list --failed` shows; several are separated by commas",
    },
    "--spider": {"metavar": "NAME", "help": "spider of the job, if it is new"},
    "--urls": {
        "default": "10M",
        "metavar": "N",
        "help": "expected URLs, such as 10M (default: %(default)s)",
    },
    "--fpp": {
        "metavar": "P",
        "default": "1e-06",
        "help": "false-positive probability (default: %(default)s)",
    },
    "--summary": "with --failed: a line for each reason, exception and slot",
    "--limit": {"type": int, "metavar": "N", "help": "print at most N lines"},
    "--interval": {
        "type": float,
        "default": 2.0,
        "metavar": "SECONDS",
        "help": "seconds between two reads (default: 2)",
    },
    "-o --output": {
        "default": "report.html",
        "metavar": "FILE",
        "help": "the page (default: %(default)s); - is standard output",
    },
    "--undo": "delete this rule",
    "--wait": "return when the crawl has ended",
    "source": {"nargs": "?", "metavar": "SOURCE", "help": "a JOBDIR, or a URL"},
    "--trust-pickles": "load pending requests and spider.state, as Scrapy does: this"
    " can run any code that was put there",
    "--fingerprints-only": "import the seen URLs, which runs no code; pages that are"
    " pending count as seen, too, and are not fetched",
    "directory": {
        "metavar": "DIRECTORY",
        "nargs": "?",
        "help": "of the files of a crawl on Redis",
    },
    "--follow": "go on until the crawl has ended, reading every second, and wait for a"
    " Redis that does not answer; Ctrl-C ends it, too",
    "--delete": "delete items from Redis that are safe here, to free memory; then only"
    " this directory has them",
    "--rest": "let a new directory begin with the items that Redis still has, though"
    " some items were deleted after they were collected elsewhere",
    "--feed": {
        "metavar": "URI",
        "action": "append",
        "default": [],
        "help": "write this feed, too, as -o names it; may be repeated",
    },
    "--yes": "do not ask",
    "target": {"help": "directory to create"},
    "--with-cookies": "copy the cookies, too, by which the crawl is logged in",
    "--json": "print JSON",
}
"""The arguments of all verbs; those with a text only are switches."""

SELECTION = ("--slot", "--pattern")
FAILED = ("--failed", "--reason")
REQUESTS = ("urls", "--from")

VERBS = (
    Verb(
        "size",
        "showing.size",
        (),
        "Calculate the bits, memory and disk that a number of URLs and a false-positive"
        " probability need.",
        "size --urls 10M --fpp 1e-6",
        ("--urls", "--fpp"),
    ),
    Verb(
        "info",
        "showing.info",
        BOTH,
        "Show the contents of a store, and the state of its job, as of the last"
        " checkpoint; a crawl may run. A crawl on Redis, or a filter there, is named by"
        " its URL, redis://host:6379/0#name. Of a directory, show a line for each job;"
        " the exit code is 1 if any of them cannot be read.",
        "info crawls/site",
        store_required=False,
    ),
    Verb(
        "list",
        "listing.list_requests",
        BOTH,
        "List the pending requests of the last checkpoint, and those in flight: slot,"
        " priority, method, callback and URL, slot by slot, the next request first."
        " With --failed, list the failed requests instead, the latest first. With"
        " --json, print an object on each line.",
        "list crawls/site --slot example.com --pattern '/tag/' --limit 20",
        (*SELECTION, *FAILED, "--summary", "--limit"),
        store_required=False,
    ),
    Verb(
        "top",
        "showing.top",
        BOTH,
        "Show a job in the terminal, refreshed, from its last checkpoints. Keys: q"
        " quits, s sorts the slots in another way. Without a terminal, the job is shown"
        " once.",
        "top crawls/site",
        ("--interval",),
        store_required=False,
    ),
    Verb(
        "report",
        "showing.report",
        BOTH,
        "Write one page that loads no other files, about the job as of its last"
        " checkpoint; a crawl may be running.",
        "report crawls/site -o report.html",
        ("-o --output",),
        store_required=False,
    ),
    Verb(
        "check",
        "listing.check",
        BOTH,
        "Show for each URL whether the job has seen it, whether it is pending, and"
        " whether it has failed, as of the last checkpoint. A URL that is seen and not"
        " pending is done, was removed, or is in flight. The project's fingerprinter"
        " decides which URLs are the same; run this in its folder.",
        "check crawls/site https://example.com/a https://example.com/b",
        REQUESTS,
    ),
    Verb(
        "add",
        "change.add",
        BOTH,
        "Add URLs to a job, unless it has seen them; `requeue` is for those. They come"
        " after the other pending requests of their priority, in the given order. Lines"
        " that are no URLs are printed with their numbers, and the exit code is 1; all"
        " other lines are added. A running crawl takes them in at its next checkpoint,"
        " and logs their numbers. If this is interrupted, run it again.",
        "add crawls/site --from urls.txt --callback parse_item",
        (*REQUESTS, "--callback", "--priority", "--spider"),
    ),
    Verb(
        "drop",
        "change.drop",
        BOTH,
        "Remove the pending requests that match all of these: URLs, a slot, a pattern."
        " They stay seen, so no link adds them again; `requeue` does, and `block` keeps"
        " new requests out. If the job runs, stop it, drop, and start it again: it goes"
        " on where it was. If this is interrupted, run it again.",
        "drop crawls/site --slot example.com --pattern '[?]sort='",
        ("urls", *SELECTION),
    ),
    Verb(
        "block",
        "change.block",
        BOTH,
        "Keep requests out of a job, now and in all later runs: for these URLs, of a"
        " slot, or with a pattern in their URLs (with both, if both are given). They"
        " are not marked as seen, but for pending requests, which go when their turn"
        " comes. `info` shows the rules. A running crawl obeys at its next checkpoint.",
        "block crawls/site --slot calendar.example.com",
        ("urls", *SELECTION, "--undo"),
    ),
    Verb(
        "requeue",
        "change.requeue",
        BOTH,
        "Make pages pending again that are done. A job does not keep their URLs, so"
        " name them; --slot and --pattern select among them. For URLs that were never"
        " seen, use `add`. With --failed, failed requests become pending again, with"
        " their retries. If the job runs, stop it, requeue, and start it again: it goes"
        " on where it was.",
        "requeue crawls/site https://example.com/a --callback parse_item",
        (*REQUESTS, *SELECTION, *FAILED, "--callback", "--priority"),
    ),
    Verb(
        "pause",
        "change.pause",
        BOTH,
        "Give a slot (host) no requests, now and in later runs, until `resume`. Links"
        " to it are accepted. A crawl does not end while only requests of paused slots"
        " are pending. A running crawl obeys at its next checkpoint.",
        "pause crawls/site --slot slow.example.com",
        ("--slot",),
    ),
    Verb(
        "resume",
        "change.resume",
        BOTH,
        "Give a paused slot (host) requests again. A running crawl obeys at its next"
        " checkpoint.",
        "resume crawls/site --slot slow.example.com",
        ("--slot",),
    ),
    Verb(
        "stop",
        "change.stop",
        BOTH,
        "End a running crawl, as Ctrl-C does in its terminal: requests in flight are"
        " finished, and pending requests stay for the next run. If nothing is pending"
        " then, the crawl is finished. The same command starts it again, as soon as it"
        " has ended: --wait waits for that.",
        "stop crawls/site",
        ("--wait",),
    ),
    Verb(
        "import",
        "stores.import_job",
        DISK,
        "Make a job of the pending requests and the seen URLs in SOURCE: a JOBDIR that"
        " Scrapy's own scheduler has closed in good order, or the URL of a Redis on"
        " which scrapy-redis has run the crawl. Without SOURCE, it is STORE itself."
        " Requests that cannot be read are printed and left out, and the exit code is"
        " 1. If this is interrupted, there is no job: run it again.",
        "import crawls/site --spider site --trust-pickles",
        ("source", "--spider", "--trust-pickles", "--fingerprints-only"),
    ),
    Verb(
        "collect",
        "stores.collect",
        BOTH,
        "Write the output of a crawl into its feeds, each item once; call it in the"
        " folder of the project. Of a crawl on Redis, relative paths of feeds begin in"
        " DIRECTORY. JSON lines and CSV grow while items come; other feeds get whole"
        " files when the crawl has ended. After any end, run it again: it goes on. Of a"
        " job in a directory, the feeds that wait for the end of the crawl get all"
        " items that are there now.",
        "collect redis://localhost:6379/0#site output --follow --delete",
        ("directory", "--follow", "--delete", "--rest", "--feed"),
    ),
    Verb(
        "reset",
        "change.reset",
        BOTH,
        "Remove the store of a job that does not run, and spider.state, so that the"
        " next run begins anew; output files stay. The contents are shown first, and"
        " confirmed by typing yes, or by --yes. Of a crawl on Redis, all keys are"
        " removed, output that was not collected included.",
        "reset crawls/site",
        ("--yes",),
    ),
    Verb(
        "backup",
        "stores.backup",
        DISK,
        "Copy the last checkpoint of a store to a new directory, compacted. A crawl may"
        " be running. Cookies are secrets, and left out unless told; tokens in requests"
        " or in attributes of the spider are not.",
        "backup crawls/site backup",
        ("target", "--with-cookies"),
    ),
    Verb(
        "verify",
        "stores.verify_store",
        DISK,
        "Read all of a store and report its faults. Nothing is changed. No crawl may be"
        " running. The exit code is 1 if there is a fault.",
        "verify crawls/site",
        store_required=False,
    ),
)
"""The verbs, in the order in which ``--help`` lists them."""
