"""``block``: keep requests out of a job by rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.cli.change.rules_verb import RulesVerb
from bloomdupe.cli.change.selection_arguments import add_named
from bloomdupe.crawl.state.rules import described, rule_of
from bloomdupe.errors import SettingError
from bloomdupe.jobs.selection import Selection

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from bloomdupe.crawl.state.rules import Rule, Rules


class Block(RulesVerb):
    """Adds rules, or deletes them."""

    name = "block"
    help = "keep requests out of a job by rules"
    description = (
        "Keep requests out of a job, now and in all later runs: for these URLs, of a"
        " slot, or with a pattern in their URLs (with both, if both are given)."
        " Requests that a crawl finds later are dropped before they are marked as seen,"
        " so a link adds them again after --undo. Pending requests are dropped when"
        " their turn comes, and stay seen. `info` shows the rules. A running crawl"
        " obeys at its next checkpoint, and workers on Redis within a second; requests"
        " in progress go on."
    )
    example = "block crawls/site --slot calendar.example.com"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the rule."""
        add_named(parser)
        parser.add_argument("--undo", action="store_true", help="delete this rule")

    def change(self, options: Namespace) -> Callable[[Rules], Rules]:
        """Add rules of URLs, or a rule of slot and pattern; or delete them."""
        slot, pattern = options.slot, options.pattern
        if not (options.urls or slot or pattern):
            raise SettingError("no rule is given: name URLs, --slot, or --pattern")
        if options.urls and (slot or pattern):
            raise SettingError(
                "each URL is a rule by itself, without --slot and --pattern"
            )
        if options.urls:
            rules = [_rule(url) for url in options.urls]
        else:
            given = Selection.of(slot, pattern).values
            rules = [{name: value for name, value in given.items() if value}]
        if options.undo:
            return lambda there: there.not_blocking(rules)
        return lambda there: there.blocking(rules)

    def lines(self, rules: Rules) -> Iterator[str]:
        """Yield the rules."""
        if not rules.blocked:
            yield "Nothing is blocked."
        yield from (f"blocked: {described(rule)}" for rule in rules.blocked)


def _rule(url: str) -> Rule:
    from bloomdupe.jobs.request_line import checked

    try:
        return rule_of(checked(url).url)
    except ValueError as error:
        raise SettingError(str(error)) from error
