"""The command line: sizes and stores. ``bloomdupe --help`` lists the verbs."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from bloomdupe._version import __version__
from bloomdupe.cli import change, showing, stores
from bloomdupe.cli.output import report_progress, say_all, warn, written
from bloomdupe.cli.verbs import BOTH, INTERRUPTED, OPTIONS, Verb
from bloomdupe.errors import BloomDupeError, SettingError
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import NoReturn

    from bloomdupe.cli.verbs import Answer
    from bloomdupe.jobs.job import Job

LONGEST = 300
"""Characters of an error about arguments, which quotes them."""

VERBS = {
    one.name: one
    for module in (showing, change, stores)
    for one in vars(module).values()
    if isinstance(one, Verb)
}
"""The verbs by name, in the order in which ``--help`` lists them."""


def build_parser() -> ArgumentParser:
    """Return the parser of the ``bloomdupe`` command."""
    parser = _Parser(
        prog="bloomdupe",
        description="Size Bloom filters and look after the stores of crawls.",
        epilog="`bloomdupe VERB --help` explains a verb.",
    )
    parser.add_argument(
        "--version", action="version", version=f"bloomdupe {__version__}"
    )
    add_verbs(parser, parser.prog)
    return parser


def add_verbs(parser: ArgumentParser, prog: str, jobdir: str | None = None) -> None:
    """Add the verbs to the command ``prog``; ``jobdir`` is the default store."""
    # Those of the project, if Scrapy has them at hand already.
    parser.set_defaults(project_settings=None)
    parsers = parser.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=_AnyOrder, prog=prog
    )
    for verb in VERBS.values():
        its_parser = parsers.add_parser(
            verb.name,
            help=re.split(r"[.:;] |\.$", verb.description)[0],
            description=verb.description,
            epilog=f"Example: {prog} {verb.example}",
        )
        if verb.on:
            default = None if verb.store_required else jobdir
            shown = str(default).replace("%", "%%")
            its_parser.add_argument(
                "store",
                nargs="?" if default else None,
                default=default,
                help="; or ".join(verb.on) + f" (default: {shown})" * bool(default),
            )
        for name in (*verb.options, "--json"):
            its_parser.add_argument(*name.split(), **OPTIONS[name])


class _Parser(ArgumentParser):
    """Quotes wrong arguments in a printable line."""

    def error(self, message: str) -> NoReturn:
        said = message if len(message) <= LONGEST else f"{message[:LONGEST]}..."
        super().error(printable(said))


class _AnyOrder(_Parser):
    """Takes options between a store and URLs, too.

    ``argparse`` does so only when asked, and subcommands are never asked.
    """

    _asked = False

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: Namespace | None = None,
    ) -> tuple[Namespace, list[str]]:
        if self._asked:
            return super().parse_known_args(args, namespace)
        self._asked = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._asked = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 0 done, 1 failed, 2 bad usage."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        with written():  # of --help, too, which ends the process
            return run(build_parser().parse_args(words))
    except BloomDupeError as error:
        warn(f"bloomdupe: {error}")
        return 1


def run(options: Namespace) -> int:
    """Carry out parsed options; return the exit code."""
    verb = VERBS[options.verb]
    try:
        report_progress()
        if verb.on:
            options.job = _job_for(verb, options.store)
        answer = verb.action(options)
        # A reader such as `head` may stop at any line: the changes are made, and the
        # exit code reports them all the same.
        say_all(_lines(answer, json_=options.json))
    except BloomDupeError as error:
        warn(f"bloomdupe {verb.name}: {error}")
        return 2 if isinstance(error, SettingError) else 1
    except OSError as error:
        remedy = "; look at its owner and its permissions"
        is_forbidden = isinstance(error, PermissionError)
        warn(f"bloomdupe {verb.name}: {error}{remedy * is_forbidden}")
        return 1
    except KeyboardInterrupt:
        warn(f"bloomdupe {verb.name}: interrupted")
        return INTERRUPTED
    return answer.status


def _job_for(verb: Verb, named: str) -> Job:
    """Return the named job; refuse a verb that a crawl on Redis does not have."""
    from bloomdupe.filter.parameters import is_url
    from bloomdupe.jobs import open_job

    if is_url(named) and verb.on != BOTH:  # which may hold a password
        raise SettingError(
            f"a crawl on Redis does not have this verb: expected {verb.on[0]}"
        )
    return open_job(named)


def _lines(answer: Answer, *, json_: bool) -> Iterable[str]:
    if not json_:
        return answer.lines
    record: Any = answer.record
    if isinstance(record, dict):
        return json.dumps(record, indent=2).splitlines()
    return map(json.dumps, record)
