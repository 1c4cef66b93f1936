"""The bases of verbs that change a job, whether a crawl runs it or not."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from bloomdupe.cli.change.urls_argument import given_lines
from bloomdupe.cli.output import warn
from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import plural

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator

    from bloomdupe.crawl.changes.change import Change
    from bloomdupe.jobs.added import Added
    from bloomdupe.jobs.job_contract import ChangingJob, Made
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.request_line import Wanted


class ChangeVerb(Verb["Made"]):
    """Makes a change; its result is the answer to the change."""

    needs = "directory"
    fields: ClassVar[tuple[str, ...]]
    """The fields of the answer that its JSON object has."""

    @abstractmethod
    def change(self, options: Namespace, project: Callable[[], Project]) -> Change:
        """Return the change; the ``project`` is asked for only if URLs are named."""

    @abstractmethod
    def lines(self, answer: dict[str, Any]) -> Iterator[str]:
        """Yield the lines to print."""

    def run(self, options: Namespace) -> Made:
        """Make the change."""
        by_url = bool(getattr(options, "urls", None))
        job: ChangingJob = options.job.changing(
            options.project_settings, warn, counted, by_url=by_url
        )
        with closing(job):
            return job.make(self.change(options, lambda: job.project))

    def text(self, result: Made) -> Iterable[str]:
        """Return the lines; the first says whether the crawl has made the change."""
        first, *others = self.lines(result.answer)
        return [by_the_crawl(taken_up=result.taken_up) + first, *others]

    def json(self, result: Made) -> dict[str, Any]:
        """Return the fields."""
        found = {name: result.answer[name] for name in self.fields}
        return found | {"taken_up": result.taken_up}


def by_the_crawl(*, taken_up: bool) -> str:
    """Return the beginning of a line about a change: whether the crawl has made it."""
    return "taken up by the running crawl: " if taken_up else ""


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
