"""The verbs: each is a function with its arguments, and its docstring explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator

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
    action: Callable[[Namespace], Answer]
    """It takes the parsed options, in which ``job`` is the job that ``store`` names.
    It may raise :class:`~bloomdupe.errors.BloomDupeError`."""
    on: tuple[str, ...]
    """What it may be called on; none: it has no argument ``store``."""
    description: str
    """Its first part is for the list of verbs."""
    example: str
    """The arguments of an example call, without the name of the program."""
    options: tuple[str, ...]
    """Names of all but ``store``, which comes before them, and ``--json``."""
    store_required: bool
    """Whether the store must be named, even if the project has a JOBDIR."""


def verb(
    example: str,
    *options: str,
    on: tuple[str, ...] = BOTH,
    store_required: bool = True,
) -> Callable[[Callable[[Namespace], Answer]], Verb]:
    """Make a function the verb of an example; its docstring is the description."""

    def made(action: Callable[[Namespace], Answer]) -> Verb:
        name, description = example.split()[0], " ".join((action.__doc__ or "").split())
        return Verb(name, action, on, description, example, options, store_required)

    return made


SELECTION = ("--slot", "--pattern")
FAILED = ("--failed", "--reason")
REQUESTS = ("urls", "--from")

OPTIONS: dict[str, str | tuple[str, str, Any] | dict[str, Any]] = {
    "urls": {"nargs": "*", "metavar": "URL", "help": "such as https://a.example/"},
    "--from": {
        "dest": "file",
        "metavar": "FILE",
        "help": "a file with a URL or a JSON object on each line; - is standard input",
    },
    "--callback": ("NAME", "the spider's method for the responses", "parse"),
    "--priority": ("N", "higher ones go first", 0),
    "--slot": (
        "SLOT",
        "only requests of this slot (a host, unless the project names others)",
        None,
    ),
    "--pattern": ("REGEX", "only URLs in which this regular expression is found", None),
    "--failed": "failed requests, instead of the others",
    "--reason": (
        "REASON",
        "only requests that failed for this reason: an HTTP status such as 503, or one"
        " that `list --failed` shows; several are separated by commas",
        None,
    ),
    "--spider": ("NAME", "spider of the job, if it is new", None),
    "--urls": ("N", "expected URLs, such as 10M", "10M"),
    "--fpp": ("P", "false-positive probability", "1e-06"),
    "--summary": "with --failed: a line for each reason, exception and slot",
    "--limit": {"type": int, "metavar": "N", "help": "print at most N lines"},
    "--interval": ("SECONDS", "seconds between two reads", 2.0),
    "-o --output": ("FILE", "the page; - is standard output", "report.html"),
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
"""The arguments of all verbs: the help of a switch; name, help and default of a value;
or what ``argparse`` takes."""


def argument(name: str) -> dict[str, Any]:
    """Return an argument of verbs as ``argparse`` has it."""
    given = OPTIONS[name]
    if isinstance(given, str):
        return {"action": "store_true", "help": given}
    if isinstance(given, dict):
        return given
    metavar, help_, default = given
    if default is None:
        return {"metavar": metavar, "help": help_}
    help_ += " (default: %(default)s)"
    kind = type(default)
    return {"metavar": metavar, "help": help_, "default": default, "type": kind}
