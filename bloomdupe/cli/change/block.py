"""``block``: keep requests out of a job by rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.change.added_counts import by_the_crawl
from bloomdupe.cli.change.drop import going_on_in_words
from bloomdupe.cli.change.selection_arguments import add_named, dropping_of
from bloomdupe.cli.output import warn
from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.store_argument import add_store
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.changes.change import Refusal
from bloomdupe.crawl.state.blocked import described
from bloomdupe.errors import SettingError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["Block"]


class RulesNow(NamedTuple):
    """The rules that the job has now, and the numbers of matching requests."""

    rules: list[dict[str, Any]]
    dropped: int
    in_progress: int
    taken_up: bool


class Block(Verb[RulesNow]):
    """Keeps a rule in the store, and removes the pending requests that match it."""

    name = "block"
    help = "keep requests out of a job by rules"
    description = (
        "Keep requests out of a job, now and in all later runs: for these URLs, of a"
        " slot, or with a pattern in their URLs (with both, if both are given)."
        " Pending requests are removed. Requests that a crawl finds later are removed"
        " before they are marked as seen, so a link adds them again after --undo."
        " `info` shows the rules. A running crawl makes the change at its next"
        " checkpoint; requests in progress go on. The rule is stored first; if this is"
        " interrupted, run it again."
    )
    example = "block crawls/site --slot calendar.example.com"
    needs = "directory"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, and the rule."""
        add_store(parser, jobdir, self, required=True)
        add_named(parser)
        parser.add_argument(
            "--undo", action="store_true", help="delete this rule; remove no requests"
        )

    def run(self, options: argparse.Namespace) -> RulesNow:
        """Store the rule, then remove requests; or delete the rule."""
        from bloomdupe.jobs.on_disk.changing import Changing

        if not (options.urls or options.slot or options.pattern):
            raise SettingError("no rule is given: name URLs, --slot, or --pattern")
        if options.urls and (options.slot or options.pattern):
            raise SettingError(
                "each URL is a rule by itself, without --slot and --pattern"
            )
        path = options.job.directory
        given, by_url = options.project_settings, bool(options.urls)
        with Changing(path, given, warn, counted, by_url=by_url) as job:
            dropping = dropping_of(options, lambda: job.project)
            rules: list[dict[str, Any]] = [
                {"url": url, "key": key.hex()} for key, url in dropping.pages.items()
            ]
            both = {"slot": options.slot, "pattern": options.pattern}
            if not rules:
                rules = [{name: value for name, value in both.items() if value}]
            answer, taken_up = job.make(Refusal(rules, dropping, options.undo))
        return RulesNow(
            answer["rules"], answer["dropped"], answer["in_progress"], taken_up
        )

    def text(self, result: RulesNow) -> Iterable[str]:
        """Return the number of removed requests, and the rules."""
        begin = by_the_crawl(taken_up=result.taken_up)
        yield f"{begin}{result.dropped:,} removed"
        yield from going_on_in_words(result.in_progress)
        if not result.rules:
            yield "Nothing is blocked."
        yield from (f"blocked: {described(rule)}" for rule in result.rules)

    def json(self, result: RulesNow) -> dict[str, Any]:
        """Return all of it."""
        return result._asdict()
