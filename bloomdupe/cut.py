"""Cut: one checkpoint of a crawl, everything in it consistent."""

from __future__ import annotations

import inspect
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import signals
from scrapy.utils.python import global_object_name
from twisted.python.failure import Failure

from bloomdupe.errors import CheckpointRefusedError
from bloomdupe.feeds import FeedExporter
from bloomdupe.format import blob_sum
from bloomdupe.outcomes import Outcomes
from bloomdupe.signals import checkpoint
from bloomdupe.spider_state import SpiderState
from bloomdupe.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from bloomdupe.batch import Batch
    from bloomdupe.engine_access import EngineAccess
    from bloomdupe.frontier import Frontier
    from bloomdupe.leases import Leases
    from bloomdupe.limits import SlotLimits
    from bloomdupe.line import Entry
    from bloomdupe.outcomes import Outcome
    from bloomdupe.serializer import Serializer
    from bloomdupe.settings import JobSettings

__all__ = ["Cut"]

RECORD = "crawl"
STATE = "state"


class Cut:
    """Requests, marks, items, ``spider.state``, totals and delays, in one commit.

    What a request has brought about is held back until it is settled, so that all
    of it is in the store, or nothing. The record ``crawl`` of the store is a JSON
    object:

    ``totals``  :class:`bloomdupe.totals.Totals`
    ``delays``  seconds by slot, where AutoThrottle sets them
    ``holds``   Unix time by slot before which a server does not want to be asked
    ``feeds``   by URI, see :class:`bloomdupe.feed.Feed`; and in which of ``files``
    ``files``   see :class:`bloomdupe.feedfile.FeedFile`
    ``blobs``   checksum of each value in the database ``blobs``: ``state`` is
                ``spider.state`` (see :mod:`bloomdupe.serializer`), ``feed0`` and so on
                are the last pieces of the files
    """

    def __init__(
        self,
        crawler: Crawler,
        engine: EngineAccess,
        frontier: Frontier,
        serializer: Serializer,
        settings: JobSettings,
        limits: SlotLimits,
    ) -> None:
        self._crawler = crawler
        self._engine = engine
        self._frontier = frontier
        self._limits = limits
        self._store = frontier.store
        self._accept = settings.feed_changed == "accept"
        self._outcomes = Outcomes(settings.directory)
        self._feeds: FeedExporter | None = None
        self._state = SpiderState(crawler, serializer)
        self._totals = Totals()
        self._record: dict[str, Any] = {}
        self._blobs: dict[str, str] = {}
        self._begun = monotonic()
        self._taken_up = False
        # Of what is settled; left unfinished where it is too much at once.
        self._lines: Iterator[tuple[int, bytes]] | None = None

    def take_up(self, leases: Leases, *, resumed: bool) -> None:
        """Go on where the last checkpoint has left off.

        ``resumed`` says that the crawl has not finished since. Raises
        :class:`~bloomdupe.errors.FeedError` if a feed cannot be continued, and
        :class:`~bloomdupe.errors.StoreDamagedError`.
        """
        self._leases = leases
        blobs: dict[str, bytes] = {}
        if self._store is not None:
            self._store.make_room_for(b"blobs")
            with self._store.snapshot() as snapshot:
                self._record = snapshot.record(RECORD) or {}
                self._blobs = self._record.get("blobs", {})
                blobs = {
                    name: snapshot.blob(name, expected)
                    for name, expected in self._blobs.items()
                }
            feeds = self._crawler.get_extension(FeedExporter)
            if feeds is not None:
                feeds.take_up(
                    self._outcomes,
                    self._outcome_of,
                    self._record,
                    blobs,
                    resumed=resumed,
                    accept=self._accept,
                )
                self._feeds = feeds
        self._totals = Totals(**self._record.get("totals", {}))
        self._totals.runs += 1
        self._seconds_before = self._totals.seconds
        if resumed:
            self._engine.skip_start_items(self._totals.start_items)
            self._engine.restore_delays(self._record.get("delays", {}))
        else:
            self._totals.start_items = 0
        self._engine.restore_holds(self._record.get("holds", {}))
        self._state.restore(blobs.get(STATE))
        connect = self._crawler.signals.connect
        connect(self._received, signals.response_received)
        if self._feeds is None:  # which counts them: one call an item is enough
            connect(self._scraped, signals.item_scraped)
        connect(self._dropped, signals.item_dropped)
        connect(self._dropped, signals.item_error)
        self._tell()

    # What requests bring about

    def _outcome_of(self, response: Any) -> Outcome:  # noqa: ANN401 - or a failure
        """Find where the items of a response, or of a failure, belong."""
        request = getattr(response, "request", None)
        return self._outcomes.of(self._leases.entry_of(request))

    def _received(self, response: Response, request: Request) -> None:
        entry = self._leases.entry_of(request)
        if entry is not None:  # not robots.txt, images and the like
            outcome = self._outcomes.of(entry)
            outcome.pages += 1
            outcome.body_bytes += len(response.body)

    def _scraped(self, response: Any) -> None:  # noqa: ANN401
        self._outcome_of(response).add_item(start=response is None)

    def _dropped(self, response: Any) -> None:  # noqa: ANN401
        self._outcome_of(response).start_items += response is None

    def settled(self, entry: Entry) -> None:
        """Take note that a request is settled: what it has brought about counts."""
        self._outcomes.settle(entry)

    # Checkpoints

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return (
            not self._taken_up
            or self.unfinished
            or self._frontier.changed
            or self._outcomes.changed
            or self._state.changed
        )

    @property
    def unfinished(self) -> bool:
        """Whether the last commit held only a part, and the next one is due soon."""
        return self._lines is not None

    def commit(self) -> None:
        """Make everything durable, or a part of it if it is too much at once.

        The parts before the last count for nothing if there is a crash. Raises
        :class:`~bloomdupe.errors.BloomDupeError`; the last checkpoint stands then,
        and the crawl must not go on.
        """
        if self._lines is None:
            self._lines = self._take()
        if self._feeds is not None:
            self._feeds.sync()
            if self._feeds.gather(self._lines):
                self._commit_part(self._feeds)
                return
        for _ in self._lines:
            pass  # counted, though there is no feed for it
        self._lines = None
        if self._store is None:
            self._frontier.checkpoint()
        else:
            self._ask()
            self._frontier.checkpoint(self._whole(), self._limits.change())
        self._taken_up = True
        if self._feeds is not None:
            self._feeds.append()
        self._tell()

    def _commit_part(self, feeds: FeedExporter) -> None:
        assert self._store is not None  # noqa: S101 - or no feed was taken up
        record = {**self._record, "files": feeds.record()["files"]}
        self._store.commit(self._change(record, {}))
        feeds.append()

    def close(self, reason: str) -> None:
        """Write the last checkpoint, and why the run has ended.

        That comes after the last items are in their files: until then, nothing has
        ended.
        """
        notes = self._frontier.seen.notes
        if self._feeds is None:
            notes["run"] = reason
            self.commit()
        else:
            self.commit()
            while self.unfinished:
                self.commit()
            self._feeds.sync()
            notes["run"] = reason
            self._frontier.checkpoint(self._whole())

    def _ask(self) -> None:
        """Let everybody write what belongs to this checkpoint."""
        answers = self._crawler.signals.send_catch_log(
            checkpoint, spider=self._crawler.spider
        )
        for receiver, answer in answers:
            name = global_object_name(receiver)
            if isinstance(answer, Failure):
                raise CheckpointRefusedError(
                    f"{name}, which listens to bloomdupe.signals.checkpoint, failed:"
                    f" {answer.getErrorMessage()}"
                )
            if inspect.isawaitable(answer):
                raise CheckpointRefusedError(
                    f"{name}, which listens to bloomdupe.signals.checkpoint, is a"
                    " coroutine: the commit cannot wait for it. Write without await"
                )

    def _take(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of what is settled, and count it."""
        for outcome in self._outcomes.take():
            self._totals.add(outcome)
            yield from self._outcomes.lines(outcome)

    def _whole(self) -> _Change:
        self._totals.seconds = self._seconds_before + monotonic() - self._begun
        self._record = {
            "totals": self._totals.record,
            "delays": self._engine.delays(),
            "holds": self._engine.holds(),
        }
        if self._feeds is not None:
            self._record |= self._feeds.record()
        return self._change(self._record, {STATE: self._state.pack()})

    def _change(
        self, record: dict[str, Any], state: dict[str, bytes | None]
    ) -> _Change:
        pieces = {} if self._feeds is None else self._feeds.pieces()
        blobs = {**state, **pieces}
        sums = {
            n: blob_sum(n, value) for n, value in blobs.items() if value is not None
        }
        if not state and STATE in self._blobs:
            sums[STATE] = self._blobs[STATE]
        puts = {
            name: value
            for name, value in blobs.items()
            if value is not None and self._blobs.get(name) != sums[name]
        }
        deletes = [name for name in self._blobs if name not in sums]
        return _Change(self, puts, deletes, {**record, "blobs": sums})

    def _tell(self) -> None:
        assert self._crawler.stats is not None  # noqa: S101 - it runs
        self._totals.tell(self._crawler.stats)


class _Change(NamedTuple):
    """Part of a transaction (a :class:`bloomdupe.storage.Change`)."""

    cut: Cut
    puts: dict[str, bytes]
    deletes: list[str]
    record: dict[str, Any]

    def write(self, batch: Batch) -> None:
        """Put it into the transaction."""
        for name in self.deletes:
            batch.delete_blob(name)
        for name, value in self.puts.items():
            batch.put_blob(name, value)
        batch.put_record(RECORD, self.record)

    def done(self) -> None:
        """Take note that it is durable."""
        self.cut._blobs = self.record["blobs"]
