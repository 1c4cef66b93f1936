"""``block``: keep requests out of a job by rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.cli.change.change_verb import ChangeVerb
from bloomdupe.cli.change.drop import going_on_in_words
from bloomdupe.cli.change.selection_arguments import add_named, dropping_of
from bloomdupe.crawl.state.blocked import described
from bloomdupe.errors import SettingError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from bloomdupe.crawl.changes.change import Change
    from bloomdupe.jobs.project import Project


class Block(ChangeVerb):
    """Keeps a rule in the store, and removes the pending requests that match it."""

    name = "block"
    help = "keep requests out of a job by rules"
    description = (
        "Keep requests out of a job, now and in all later runs: for these URLs, of a"
        " slot, or with a pattern in their URLs (with both, if both are given)."
        " Pending requests are removed. Requests that a crawl finds later are removed"
        " before they are marked as seen, so a link adds them again after --undo."
        " `info` shows the rules. A running crawl makes the change at its next"
        " checkpoint, and workers on Redis know the rule half a second later; requests"
        " in progress go on. The rule is stored first; if this is interrupted, run it"
        " again."
    )
    example = "block crawls/site --slot calendar.example.com"
    needs = "changing"
    fields = ("rules", "dropped", "in_progress")

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the rule."""
        add_named(parser)
        parser.add_argument(
            "--undo", action="store_true", help="delete this rule; remove no requests"
        )

    def change(self, options: Namespace, project: Callable[[], Project]) -> Change:
        """Return the rules, and the selection of requests that match them."""
        if not (options.urls or options.slot or options.pattern):
            raise SettingError("no rule is given: name URLs, --slot, or --pattern")
        if options.urls and (options.slot or options.pattern):
            raise SettingError(
                "each URL is a rule by itself, without --slot and --pattern"
            )
        dropping = dropping_of(options, project)
        rules = [{"url": url, "key": key} for key, url in dropping["pages"].items()]
        both = {"slot": options.slot, "pattern": options.pattern}
        if not rules:
            rules = [{name: value for name, value in both.items() if value}]
        return {"kind": "block", "rules": rules, "undo": options.undo, **dropping}

    def lines(self, answer: dict[str, Any]) -> Iterator[str]:
        """Yield the number of removed requests, and the rules."""
        yield f"{answer['dropped']:,} removed"
        yield from going_on_in_words(answer["in_progress"])
        if not answer["rules"]:
            yield "Nothing is blocked."
        yield from (f"blocked: {described(rule)}" for rule in answer["rules"])
