"""``block``: keep requests out of a job by rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.change.drop import drop
from bloomdupe.cli.change.selection_arguments import add_named
from bloomdupe.cli.store_argument import add_store
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.state.blocked import BLOCKED, described
from bloomdupe.errors import SettingError, StoreMismatchError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.jobs.selection import Selection

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["Block"]


class RulesNow(NamedTuple):
    """The rules that the job has now, and the number of requests removed."""

    rules: list[dict[str, Any]]
    dropped: int


class Block(Verb[RulesNow]):
    """Keeps a rule in the store, and removes the pending requests that match it."""

    name = "block"
    help = "keep requests out of a job by rules"
    description = (
        "Keep requests out of a job, now and in all later runs: for these URLs, of a"
        " slot, or with a pattern in their URLs (with both, if both are given)."
        " Pending requests are removed. Requests that a crawl finds later are removed"
        " before they are marked as seen, so a link adds them again after --undo."
        " `info` shows the rules. The job must not be running. The rule is stored"
        " first; if this is interrupted, run it again."
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
        if not (options.urls or options.slot or options.pattern):
            raise SettingError("no rule is given: name URLs, --slot, or --pattern")
        if options.urls and (options.slot or options.pattern):
            raise SettingError(
                "each URL is a rule by itself, without --slot and --pattern"
            )
        Selection.of(options.slot, options.pattern)
        path = options.job.directory
        with BloomFilter.open(path) as seen:
            given = _given(options, seen.identity)
            rules = list(seen.notes.get(BLOCKED, []))
            if options.undo:
                rules = _without(rules, given)
            else:
                rules += [rule for rule in given if rule not in rules]
            seen.notes[BLOCKED] = rules
            seen.checkpoint()
            dropped = 0
            if not options.undo:
                store = seen.share_store()
                assert store is not None  # noqa: S101 - it was opened from there
                dropped = drop(store, options).dropped
        return RulesNow(rules, dropped)

    def text(self, result: RulesNow) -> Iterable[str]:
        """Return the number of removed requests, and the rules."""
        yield f"{result.dropped:,} removed"
        if not result.rules:
            yield "Nothing is blocked."
        yield from (f"blocked: {described(rule)}" for rule in result.rules)

    def json(self, result: RulesNow) -> dict[str, Any]:
        """Return all of it."""
        return result._asdict()


def _given(
    options: argparse.Namespace, identity: dict[str, Any]
) -> list[dict[str, Any]]:
    if not options.urls:
        both = {"slot": options.slot, "pattern": options.pattern}
        return [{name: value for name, value in both.items() if value is not None}]
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.request_line import checked

    project = Project.of_store(options.project_settings, identity)
    rules = []
    for url in options.urls:
        try:
            key, _ = project.key_of(checked(url))
        except ValueError as error:
            raise SettingError(str(error)) from error
        rules.append({"url": url, "key": key.hex()})
    return rules


def _without(
    rules: list[dict[str, Any]], given: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    for rule in given:
        same = [
            one
            for one in rules
            if one == rule or ("key" in rule and one.get("key") == rule["key"])
        ]
        if not same:
            raise StoreMismatchError(f"there is no such rule: {described(rule)}")
        rules = [one for one in rules if one not in same]
    return rules
