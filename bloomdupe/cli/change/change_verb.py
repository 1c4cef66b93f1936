"""ChangeVerb: a verb that makes a change to a job, whether a crawl runs it or not."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar

from bloomdupe.cli.output import warn
from bloomdupe.cli.verb import Verb

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator

    from bloomdupe.crawl.changes.change import Change
    from bloomdupe.jobs.on_disk.changing import Made
    from bloomdupe.jobs.project import Project

__all__ = ["ChangeVerb", "by_the_crawl"]


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
        from bloomdupe.jobs.on_disk.changing import Changing

        path, settings = options.job.directory, options.project_settings
        by_url = bool(getattr(options, "urls", None))
        with closing(Changing(path, settings, warn, by_url=by_url)) as job:
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
