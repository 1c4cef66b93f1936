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


def _switch(help_: str) -> dict[str, Any]:
    return {"action": "store_true", "help": help_}


def _value(
    metavar: str, help_: str, default: Any = None, **more: Any
) -> dict[str, Any]:
    if default is not None:
        help_ += " (default: %(default)s)"
        more |= {"default": default, "type": type(default)}
    return {"metavar": metavar, "help": help_, **more}


OPTIONS: dict[str, dict[str, Any]] = {
    "urls": _value("URL", "such as https://a.example/", nargs="*"),
    "--from": _value(
        "FILE",
        "a file with a URL or a JSON object on each line; - is standard input",
        dest="file",
    ),
    "--callback": _value("NAME", "the spider's method for the responses", "parse"),
    "--priority": _value("N", "higher ones go first", 0),
    "--slot": _value(
        "SLOT", "only requests of this slot (a host, unless the project names others)"
    ),
    "--pattern": _value("REGEX", "only URLs in which this regular expression is found"),
    "--failed": _switch("failed requests, instead of the others"),
    "--reason": _value(
        "REASON",
        "only requests that failed for this reason: an HTTP status such as 503, or one"
        " that `list --failed` shows; several are separated by commas",
    ),
    "--spider": _value("NAME", "spider of the job, if it is new"),
    "--urls": _value("N", "expected URLs, such as 10M", "10M"),
    "--fpp": _value("P", "false-positive probability", "1e-06"),
    "--summary": _switch("with --failed: a line for each reason, exception and slot"),
    "--limit": _value("N", "print at most N lines"),
    "--interval": _value("SECONDS", "seconds between two reads", 2.0),
    "-o --output": _value("FILE", "the page; - is standard output", "report.html"),
    "--undo": _switch("delete this rule"),
    "--wait": _switch("return when the crawl has ended"),
    "source": _value("SOURCE", "a JOBDIR, or a URL", nargs="?"),
    "--trust-pickles": _switch(
        "load pending requests and spider.state, as Scrapy does: this can run any code"
        " that was put there"
    ),
    "--fingerprints-only": _switch(
        "import the seen URLs, which runs no code; pages that are pending count as"
        " seen, too, and are not fetched"
    ),
    "directory": _value("DIRECTORY", "of the files of a crawl on Redis", nargs="?"),
    "--follow": _switch(
        "go on until the crawl has ended, reading every second, and wait for a Redis"
        " that does not answer; Ctrl-C ends it, too"
    ),
    "--delete": _switch(
        "delete items from Redis that are safe here, to free memory; then only this"
        " directory has them"
    ),
    "--rest": _switch(
        "let a new directory begin with the items that Redis still has, though some"
        " items were deleted after they were collected elsewhere"
    ),
    "--feed": _value(
        "URI", "write this feed, too, as -o names it; may be repeated", action="append"
    ),
    "--yes": _switch("do not ask"),
    "target": {"help": "directory to create"},
    "--with-cookies": _switch("copy the cookies, too, by which the crawl is logged in"),
    "--json": _switch("print JSON"),
}
"""The arguments of all verbs, as ``argparse`` takes them."""
