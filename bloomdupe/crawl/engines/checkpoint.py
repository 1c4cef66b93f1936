"""Checkpoint: the one transaction that makes everything of a crawl durable."""

from __future__ import annotations

import inspect
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy.utils.python import global_object_name
from twisted.python.failure import Failure

from bloomdupe.crawl.progress.history import Totals
from bloomdupe.errors import CheckpointRefusedError
from bloomdupe.signals import checkpoint
from bloomdupe.store.format import META, meta_records
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from scrapy.crawler import Crawler

    from bloomdupe.crawl.in_flight.outcomes import Outcomes
    from bloomdupe.feeds.exporter import FeedExporter
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.store.store import Participant

    Steps: TypeAlias = Iterator[Callable[[], None]]

RECORD = "crawl"


class Checkpoint:
    """Makes acknowledged requests durable, with everything that belongs to them.

    Each of the ``participants`` *prepares* its part without changing itself, *writes*
    it into the transaction, and updates itself once it is durable (*done*). So if a
    step raises, the last checkpoint is still valid, and no data was consumed.

    The record ``crawl`` of the store is a JSON object:

    ``totals``       :class:`bloomdupe.crawl.progress.history.Totals`
    ``feeds``        and what belongs to them: see :class:`bloomdupe.feeds.stored_feeds.
                     StoredFeeds`
    """

    def __init__(
        self, crawler: Crawler, frontier: Frontier, outcomes: Outcomes
    ) -> None:
        self._crawler = crawler
        self._frontier = frontier
        self._outcomes = outcomes
        self.feeds: FeedExporter | None = None
        """None: the crawl is in memory."""
        self.participants: list[Participant] = []
        """Besides feeds and frontier, in the order in which they prepare."""
        self.totals = Totals()
        self.read_again()
        self._counted = monotonic(), self._dropped
        """Up to when these totals count, and up to how many duplicates of this run."""

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return (
            self._frontier.changed
            or self._outcomes.changed
            or any(participant.changed for participant in self.participants)
        )

    @property
    def seconds(self) -> float:
        """Seconds that the crawl was running, over all runs."""
        return self.totals.seconds + monotonic() - self._counted[0]

    @property
    def duplicates(self) -> int:
        """Requests dropped as duplicates, over all runs."""
        return self.totals.duplicates + self._dropped - self._counted[1]

    @property
    def _dropped(self) -> int:
        assert self._crawler.stats is not None  # noqa: S101 - it runs
        dropped: int = self._crawler.stats.get_value("dupefilter/filtered", 0)
        return dropped

    def read_again(self) -> None:
        """Go on with the record of the last commit, maybe of another partition.

        Totals that have come since count there.
        """
        self.record: dict[str, Any] = {}
        if self._frontier.store is not None:
            self.record = self._frontier.store.now.record(RECORD) or {}
        found = Totals(**self.record.get("totals", {}))
        self.totals = replace(found, runs=max(found.runs, self.totals.runs))

    def begin_run(self) -> None:
        """Count this run, which has work to do."""
        self.totals = replace(self.totals, runs=self.totals.runs + 1)

    def steps(self, *, first: bool = False) -> Steps:
        """Make everything durable.

        Yields functions that send it to the store. They may take their time, on another
        thread.
        Go on when it is durable. All that happens meanwhile belongs to the next commit.

        If this raises, the last checkpoint is still valid, and the crawl must not go
        on. The ``first`` checkpoint of a run does not send the signal: its
        listeners are not ready yet.
        """
        if not first:
            self._send_signal()
        commit = self._frontier.begin(self._parts())
        yield commit.send
        commit.done()
        if self.feeds is not None:
            self.feeds.append()
        assert self._crawler.stats is not None  # noqa: S101 - it runs
        self.totals.show(self._crawler.stats)

    def _parts(self) -> list[Part]:
        """Return all parts, and before them a part with the entries of all."""
        feeds, lines = self.feeds, self._outcomes.lines()
        parts = [Part() if feeds is None else feeds.prepare(lines)]
        parts.append(self._prepare_totals())
        parts += [participant.prepare() for participant in self.participants]
        record: dict[str, Any] = {}
        for part in parts:
            record |= part.entries

        def done() -> None:
            self.record = record

        records = meta_records({RECORD: record})
        return [Part(changes={META: records}, done=done), *parts]

    def _prepare_totals(self) -> Part:
        acked, counted = self._outcomes.acked, (monotonic(), self._dropped)
        totals = self.totals.plus(acked, self.seconds, self.duplicates)

        def done() -> None:
            self.totals, self._counted = totals, counted
            self._outcomes.committed(len(acked))

        return Part(entries={"totals": vars(totals)}, done=done)

    def _send_signal(self) -> None:
        """Send the signal, so that listeners write their data with this checkpoint."""
        answers = self._crawler.signals.send_catch_log(
            checkpoint, spider=self._crawler.spider
        )
        for receiver, answer in answers:
            name = global_object_name(receiver)
            if isinstance(answer, Failure):
                raise CheckpointRefusedError(
                    f"{name}, which listens to bloomdupe.signals.checkpoint, failed:"
                    f" {answer.getErrorMessage()}"
                ) from answer.value
            if inspect.isawaitable(answer):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise CheckpointRefusedError(
                    f"{name}, which listens to bloomdupe.signals.checkpoint, is a"
                    " coroutine: the commit cannot wait for it. Write without await"
                )
