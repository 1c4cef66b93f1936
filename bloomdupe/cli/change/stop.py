"""``stop``: end a running crawl, wherever its processes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import plural

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator


class StopAnswer(NamedTuple):
    """The result: so many processes will end, or have ``ended``."""

    processes: int
    ended: bool


class Stop(Verb[StopAnswer]):
    """Ends a crawl."""

    name = "stop"
    help = "end a running crawl, such as one that waits for URLs"
    description = (
        "End a running crawl, as Ctrl-C does in its terminal: requests in progress are"
        " finished, and pending requests stay for the next run. Of a crawl on Redis,"
        " all workers end that are running now. If nothing is pending then, the crawl"
        " is finished. The same command starts it again, as soon as it has ended:"
        " --wait waits for that."
    )
    example = "stop crawls/site"
    needs = "stop"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add ``--wait``."""
        parser.add_argument(
            "--wait", action="store_true", help="return when the crawl has ended"
        )

    def run(self, options: Namespace) -> StopAnswer:
        """Ask the crawl to end."""
        return StopAnswer(options.job.stop(wait=options.wait), options.wait)

    def text(self, result: StopAnswer) -> Iterator[str]:
        """Yield a line."""
        if result.ended:
            yield f"{plural(result.processes, 'process has', 'processes have')} ended"
            return
        ends = plural(result.processes, "process ends", "processes end")
        yield f"{ends} when the requests in progress are done"
