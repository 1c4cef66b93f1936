"""The base of verbs that change the rules of a job, whether it runs or not."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.verb import Verb

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.job_contract import Ruled


class RulesVerb(Verb["Ruled"]):
    """Changes the rules; its result is all of them."""

    needs = "change_rules"

    @abstractmethod
    def change(self, options: Namespace) -> Callable[[Rules], Rules]:
        """Return the change."""

    @abstractmethod
    def lines(self, rules: Rules) -> Iterator[str]:
        """Yield the lines to print."""

    def run(self, options: Namespace) -> Ruled:
        """Make the change."""
        ruled: Ruled = options.job.change_rules(self.change(options))
        return ruled

    def text(self, result: Ruled) -> Iterable[str]:
        """Return the rules, and the time when they hold."""
        return [*self.lines(result.rules), result.obeyed]

    def json(self, result: Ruled) -> dict[str, Any]:
        """Return the rules as they are stored."""
        values = result.rules.values
        return {name: values[name] for name in ("blocked", "paused")}
