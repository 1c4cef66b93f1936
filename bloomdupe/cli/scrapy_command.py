"""``scrapy bloomdupe``: the command line, knowing the project's JOBDIR.

``scrapy`` imports this module for each of its commands. So the verbs are imported only
when they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


class Command(ScrapyCommand):
    """The same verbs as the console script; stores default to ``JOBDIR``."""

    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 (Scrapy's own type)

    def syntax(self) -> str:
        """Return the usage line after the command's name."""
        return "VERB [options]"

    def short_desc(self) -> str:
        """Return the line that ``scrapy`` shows in its list."""
        return "Size Bloom filters and look after the stores of crawls"

    def add_options(self, parser: ArgumentParser) -> None:
        """Add Scrapy's options and ours."""
        super().add_options(parser)
        from bloomdupe.cli import main as cli

        jobdir = self.settings.get("JOBDIR") if self.settings else None
        cli.add_verbs(parser, "scrapy bloomdupe", jobdir and str(jobdir))

    def run(self, args: list[str], opts: Namespace) -> None:
        """Run a verb."""
        from bloomdupe.cli import main as cli

        opts.project_settings = self.settings
        self.exitcode = cli.run(opts)
