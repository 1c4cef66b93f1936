"""The base of verbs that make requests pending."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.change.urls_argument import given_lines
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import plural

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from bloomdupe.jobs.added import Added
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.request_line import Wanted


class AddingVerb(Verb["Added"]):
    """Adds the requests of URLs, lines or failures to a job."""

    @staticmethod
    def found(
        options: Namespace, project: Project, added: Added, *, start: bool = False
    ) -> Iterator[Wanted]:
        """Yield the given requests; lines that cannot be read become problems."""
        from bloomdupe.jobs.request_line import Defaults, read_all

        project.check_method("--callback", options.callback)
        defaults = Defaults(options.callback, options.priority, start=start)
        lines = given_lines(options, added.problems)
        return read_all(lines, defaults, project, added.problems)

    def text(self, result: Added) -> Iterator[str]:
        """Yield a line for each count that is not 0."""
        if result.handed_over:
            handed = plural(result.handed_over, "request")
            yield f"{handed} handed to the running crawl, which logs what it adds"
        if result.taken_in or not result.handed_over:
            yield f"{result.taken_in:,} pending now"
        if result.seen:
            yield f"{plural(result.seen, 'was', 'were')} seen before: skipped"
        if result.waited:
            yield f"{plural(result.waited, 'was', 'were')} pending already: not added"
        if result.unseen:
            never = plural(result.unseen, "was", "were")
            yield f"{never} never seen: use `bloomdupe add`"
        yield from blocked_in_words(result.blocked)
        if result.problems.count:
            yield f"{result.problems.count:,} could not be read:"
            yield from result.problems.lines()

    def json(self, result: Added) -> dict[str, Any]:
        """Return the counts."""
        found = asdict(result)
        del found["problems"]
        return found | {"broken": result.problems.as_dict()}

    def status(self, result: Added) -> int:
        """1 if anything could not be read, was never seen, or is blocked."""
        return int(result.problems.count + result.unseen + result.blocked > 0)


def blocked_in_words(number: int) -> Iterator[str]:
    """Yield a line about requests kept out by rules, if any, and the remedy."""
    if number:
        blocked = plural(number, "is", "are")
        yield f"{blocked} blocked: `bloomdupe block --undo` deletes a rule"
