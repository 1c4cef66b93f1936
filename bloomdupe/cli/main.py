"""The command line: sizes and stores. ``bloomdupe --help`` lists the verbs."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from bloomdupe._version import __version__
from bloomdupe.cli.backup import Backup
from bloomdupe.cli.change.add import Add
from bloomdupe.cli.change.block import Block
from bloomdupe.cli.change.drop import Drop
from bloomdupe.cli.change.pause import Pause, Resume
from bloomdupe.cli.change.requeue import Requeue
from bloomdupe.cli.change.reset import Reset
from bloomdupe.cli.change.stop import Stop
from bloomdupe.cli.collect import Collect
from bloomdupe.cli.import_ import Import
from bloomdupe.cli.output import ToldProgress, flush, say_all, warn
from bloomdupe.cli.show.check import Check
from bloomdupe.cli.show.info import Info
from bloomdupe.cli.show.list import List
from bloomdupe.cli.show.report import Report
from bloomdupe.cli.show.size import Size
from bloomdupe.cli.show.top import Top
from bloomdupe.cli.verb import INTERRUPTED
from bloomdupe.cli.verify import Verify
from bloomdupe.errors import BloomDupeError, SettingError
from bloomdupe.jobs import ENGINES, open_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import NoReturn

    from bloomdupe.cli.verb import Verb
    from bloomdupe.jobs.job_contract import Job

GROUPS: dict[str, tuple[Verb[Any], ...]] = {
    "Before a crawl:": (Size(),),
    "Look at a job:": (Info(), List(), Top(), Report(), Check()),
    "Change a job:": (
        Add(),
        Drop(),
        Block(),
        Requeue(),
        Pause(),
        Resume(),
        Stop(),
    ),
    "Move a job:": (Import(), Collect()),
    "Look after a store:": (
        Reset(),
        Backup(),
        Verify(),
    ),
}
"""The verbs, as ``--help`` lists them."""
LONGEST = 300
"""Characters of an error about arguments, which quotes them."""
VERBS = tuple(verb for group in GROUPS.values() for verb in group)


def build_parser(verbs: Iterable[Verb[Any]] = VERBS) -> ArgumentParser:
    """Return the parser of the ``bloomdupe`` command, with these of its verbs."""
    parser = _WholeParser(
        prog="bloomdupe",
        description="Size Bloom filters and look after the stores of crawls.",
        epilog="`bloomdupe VERB --help` explains a verb.",
    )
    parser.add_argument(
        "--version", action="version", version=f"bloomdupe {__version__}"
    )
    add_verbs(parser, verbs=verbs)
    return parser


def add_verbs(
    parser: ArgumentParser,
    jobdir: str | None = None,
    verbs: Iterable[Verb[Any]] = VERBS,
) -> None:
    """Add verbs; ``jobdir`` is the default store."""
    # Those of the project, if Scrapy has them at hand already.
    parser.set_defaults(project_settings=None)
    parsers = parser.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=_AnyOrder
    )
    for verb in verbs:
        its_parser = parsers.add_parser(
            verb.name,
            help=verb.help,
            description=verb.description,
            epilog=f"Example: {parser.prog} {verb.example}",
        )
        verb.add_store(its_parser, jobdir)
        verb.add_arguments(its_parser)
        its_parser.add_argument("--json", action="store_true", help="print JSON")
        its_parser.set_defaults(its_parser=its_parser)


class _Parser(ArgumentParser):
    """Reports wrong arguments in printable lines."""

    def error(self, message: str) -> NoReturn:
        for line in self.format_usage().splitlines():
            warn(line)
        said = message if len(message) <= LONGEST else f"{message[:LONGEST]}..."
        warn(f"{self.prog}: error: {said}{self._meant(message)}")
        sys.exit(2)

    def _meant(self, message: str) -> str:
        """Return the verb or the option that was meant by an unknown word."""
        named = re.match(
            r"argument VERB: invalid choice: '([^']*)'"
            r"|unrecognized arguments: (?:.* )?(--[a-z-]+)",
            message,
        )
        if named is None:
            return ""
        words = [verb.name for verb in VERBS]
        if named[2]:
            words = re.findall("--[a-z-]+", self.format_usage())
        close = get_close_matches(named[1] or named[2], words, 1)
        return f"; did you mean {close[0]}?" if close else ""


class _WholeParser(_Parser):
    """The parser of the whole command."""

    def format_help(self) -> str:
        """Return the help text, with a title above each group of verbs."""
        titles = {group[0].name: title for title, group in GROUPS.items()}
        lines = []
        for line in super().format_help().splitlines():
            verb = re.match(r"    (\w+)( |$)", line)
            if verb is not None and verb[1] in titles:
                lines += ["", f"  {titles[verb[1]]}"]
            lines.append(line)
        return "\n".join([*lines, ""])

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> Namespace:
        """Let the parser of the verb report an unknown option."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options.its_parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options


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
    # To build the parsers of all verbs takes ten times as long as that of one.
    named = [verb for verb in VERBS if verb.name in words[:1]]
    try:
        try:
            return run(build_parser(named or VERBS).parse_args(words))
        except BrokenPipeError:  # --help had no reader, which Python 3.10 does not mind
            return 0
        finally:
            flush()  # of --help, which ends the process
    except BloomDupeError as error:
        warn(f"bloomdupe: {error}")
        return 1
    except KeyboardInterrupt:
        warn("bloomdupe: interrupted")
        return INTERRUPTED


def run(options: Namespace) -> int:
    """Carry out parsed options; return the exit code."""
    verb = next(verb for verb in VERBS if verb.name == options.verb)
    try:
        with ToldProgress():
            if verb.needs is not None:
                options.job = _job_for(verb, options.store)
            result = verb.run(options)
            # A reader such as `head` may stop at any line: the changes are made, and
            # the exit code reports them all the same.
            say_all(_lines(verb, result, options))
            return verb.status(result)
    except BloomDupeError as error:
        warn(f"bloomdupe {verb.name}: {error}")
        return 2 if isinstance(error, SettingError) else 1
    except PermissionError as error:
        warn(f"bloomdupe {verb.name}: {error}; look at its owner and its permissions")
        return 1
    except KeyboardInterrupt:
        warn(f"bloomdupe {verb.name}: interrupted")
        return INTERRUPTED


def _job_for(verb: Verb[Any], named: str) -> Job:
    """Return the named job; refuse a verb that its engine does not have."""
    job = open_job(named)  # a URL may hold a password, so it is not repeated
    if not verb.runs_on(type(job)):
        has = ", ".join(one.name for one in VERBS if one.runs_on(type(job)))
        raise SettingError(
            f"{job.kind} does not have this verb: expected"
            f" {'; or '.join(one.argument for one in ENGINES if verb.runs_on(one))}."
            f" The verbs of {job.kind} are {has}"
        )
    return job


def _lines(verb: Verb[Any], result: object, options: Namespace) -> Iterable[str]:
    if not options.json:
        return verb.text(result)
    found = verb.json(result)
    if isinstance(found, dict):
        return json.dumps(found, indent=verb.json_indent).splitlines()
    return map(json.dumps, found)


if __name__ == "__main__":
    sys.exit(main())
