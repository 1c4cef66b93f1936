"""AddingVerb: a verb that makes requests pending, and counts them by result."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.change.change_verb import by_the_crawl
from bloomdupe.cli.change.urls_argument import given_lines
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import plural

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from bloomdupe.jobs.on_disk.adding import Added
    from bloomdupe.jobs.on_disk.changing import Changing
    from bloomdupe.jobs.request_line import Wanted

__all__ = ["AddingVerb", "blocked_in_words"]


class AddingVerb(Verb["Added"]):
    """Adds the requests of URLs, lines or failures to a job."""

    @staticmethod
    def found(
        options: Namespace, job: Changing, added: Added, *, start: bool = False
    ) -> Iterator[Wanted]:
        """Yield the given requests; lines that cannot be read become problems."""
        from bloomdupe.jobs.request_line import Defaults, read_all

        job.project.check_callback(options.callback)
        defaults = Defaults(options.callback, options.priority, start=start)
        lines = given_lines(options, added.problems)
        return read_all(lines, defaults, job.project, added.problems)

    def text(self, result: Added) -> Iterator[str]:
        """Yield a line for each count that is not 0."""
        begin = by_the_crawl(taken_up=result.taken_up)
        yield f"{begin}{result.taken_in:,} pending now"
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
