"""WorkerEngine: the engine of a worker of a crawl on Redis."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.added_requests import BLOCKED, SEEN, TAKEN_IN, say_added
from bloomdupe.crawl.engines.committing import Background
from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
from bloomdupe.crawl.engines.handshake import PAUSE, notes_of, say_who
from bloomdupe.crawl.progress.history import Totals
from bloomdupe.crawl.progress.rounds import FINISHED
from bloomdupe.crawl.starting import name_of
from bloomdupe.crawl.state.rules import RulesInForce
from bloomdupe.errors import UnserializableError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.held_frontier import CONTROL, HeldFrontier
from bloomdupe.frontier.sent_request import (
    PARTITIONS,
    SentRequest,
    host_of,
    partition_of,
)
from bloomdupe.inside_scrapy.engine import on_signal
from bloomdupe.printable import logger_of
from bloomdupe.requests.layout import url_of
from bloomdupe.store.redis.redis_store import RedisStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.crawl.ending import Status
    from bloomdupe.crawl.engines.checkpoint import Steps
    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.in_flight.request import Accepted
    from bloomdupe.errors import NotOwnerError
    from bloomdupe.frontier.slot_queue import Read
    from bloomdupe.store.redis.crawl_reader import Sample

logger = logger_of(__name__)

MOST_TAKEN = 2_000
"""Requests of others that are taken in at once, for each partition."""
MOST_SENT = 1_000_000
"""Requests for others that a worker remembers, so that it does not send them twice. One
that is forgotten costs its receiver a look-up."""


class WorkerEngine(CrawlEngine):
    """Keeps the requests of its partitions, and sends all others to their owners.

    A checkpoint is a commit to all of its partitions, a sample of the crawl, and the
    requests that came from other workers. The owner of the control partition is the
    leader: ``start()`` goes on only there, and only its spider's memory is stored.
    """

    frontier: HeldFrontier

    def __init__(self, session: Session, held: HeldFrontier) -> None:
        self._takes_more = False
        self._home = held.store.number
        self._sent = BloomFilter(MOST_SENT, 1e-6)
        self._reads = Background("bloomdupe reads", session.stopping.fail)
        self._sample: Sample | None = None
        self._added_by_user = Counter[str]()
        held.load, held.more, held.may_leave = self._load, self._more, self._may_leave
        super().__init__(session, held, filtered=True)
        held.read_more = self.failures.read
        # A round that has finished while this worker waited is done.
        waited = held.waited_for_round and self.run.last == FINISHED
        self.starting.ended = waited and self.run.started

    # Opening

    def _open_rules(self) -> RulesInForce:
        frontier = self.frontier
        place = frontier.owner.keys.rules.decode()
        return RulesInForce(lambda: frontier.rules, place, self._stats)

    def _load(self, call: Callable[[], Read], then: Callable[[Read], None]) -> None:
        """Read requests on a thread."""

        def arrived(read: Read) -> None:
            then(read)
            self._access.wake()

        self._reads.run(call, arrived)

    @property
    def shown(self) -> str:
        """The crawl, as it is named in messages."""
        return self.frontier.owner.client.address.shown

    def _restore(self) -> None:
        super()._restore()
        spider: Any = self.session.spider
        if not hasattr(spider, "state"):  # Scrapy sets it if there is a JOBDIR
            spider.state = {}

    def _take_cookies(self) -> Steps:
        """Take the cookies of other workers, if any has changed."""
        cookies, sample = self.cookies, self._sample
        if cookies is None or sample is None or sample.cookies == cookies.version:
            return
        found: list[bytes] = []
        yield lambda: found.extend(cookies.stored())
        cookies.take(found, sample.cookies)

    # Acceptance

    def slot_of(self, request: Request) -> str:
        """Return the slot of a request; it decides which partition knows it."""
        parent = self.session.parent()
        if parent is not None:
            _forget_inherited_slot(request, parent.request)
        return self._access.slot_of(request)

    def host_of(self, request: Request, slot: str) -> str | None:
        """Return the host of a request, if that is not the name of its slot.

        A page has one host, however many slots a spider asks for it in.
        """
        host = host_of(request.url)
        return None if host == slot else host

    def knows(self, key: bytes, *, exact: bool, of: Request | None = None) -> bool:
        """Whether a key is seen; a link to another worker may have been sent."""
        if key in self._unmarked:
            return True
        if of is None:
            control = self.frontier.partitions.get(CONTROL)
            return control is not None and control.seen.contains(key, exact=exact)
        partition = self.frontier.partitions.get(partition_of(host_of(of.url)))
        if partition is not None:
            return partition.seen.contains(key, exact=exact)
        return self._sent.contains(_sent_key(key, of))

    def _send(self, accepted: Accepted, sent: SentRequest, *, volatile: bool) -> None:
        request, work = accepted.request, accepted.work
        if volatile and work is not None:
            work.outcome.then.append(partial(self._deliver, sent))
        else:
            self._deliver(sent)
        # With limits there may be room the next time.
        if sent.keys and not self.session.slots.limited:
            if len(self._sent) >= MOST_SENT - len(sent.keys):  # or a layer comes
                self._sent.clear()
            for key, _ in sent.keys:
                self._sent.add(_sent_key(key, request))
        if accepted.of_start:
            for key, exact in sent.keys:
                self._mark(key, exact, None, of_start=True)

    def _deliver(self, sent: SentRequest) -> None:
        """Send a request, or take it in, if its partition is here by now."""
        if self.frontier.is_here(sent.home):
            self._receive(sent)
        else:
            self.frontier.send(partition_of(sent.home), sent.packed)

    def _mark(
        self, key: bytes, exact: bool, home: str | None, *, of_start: bool
    ) -> None:
        """Mark a key in the partition of its home; a key of ``start()`` also here."""
        control = self.frontier.partitions.get(CONTROL)
        if of_start and control is not None:
            control.seen.add(key, exact=exact)
        if home is not None:
            self._deliver(SentRequest(home, 0, b"", ((key, exact),)))

    # Requests of others

    def _receive(self, sent: SentRequest) -> None:
        """Take in a request that another worker, or a user, has sent.

        If it is new, and its slot is another partition's, it goes on to that.
        """
        seen, keys = self.frontier.of_slot(sent.home).seen, list(sent.keys)
        why = self._keeps_out(seen, sent, keys) if sent.payload else None
        if sent.added and (why or sent.host is None):
            self._added_by_user[why or TAKEN_IN] += 1
        if why:
            return
        for key, exact in keys:
            if key not in self._unmarked:
                seen.add(key, exact=exact)
        if not sent.payload:
            return
        if sent.host is not None:
            self._deliver(sent._replace(keys=(), host=None))
            return
        self.has_work()
        self._push(sent)
        if not (sent.dont_filter or sent.added):
            self.session.slots.took(sent.slot)
        if self.frontier.due:
            self.committing.commit_soon()

    def _keeps_out(
        self, seen: BloomFilter, sent: SentRequest, keys: list[tuple[bytes, bool]]
    ) -> str | None:
        """Return why a request is kept out, if it is; it may get another key."""
        if self.rules.drop(sent.slot, url_of(sent.payload)):
            return BLOCKED
        if sent.dont_filter:
            return None
        if keys:
            key, exact = keys[0]
            if key in self._unmarked or seen.contains(key, exact=exact):
                second = self._second_use(seen, sent)
                if second is None:
                    self._stats.inc_value("dupefilter/filtered")
                    return SEEN
                keys.append(second)
        if sent.host is not None or sent.repeats or sent.added:
            return None
        has_room = self.session.slots.room_for(sent.slot, is_marked=not keys)
        return None if has_room else "no room"

    def _second_use(
        self, seen: BloomFilter, sent: SentRequest
    ) -> tuple[bytes, bool] | None:
        """Return the key of the second use of a start page, if it is one."""
        key, exact = sent.keys[0]
        if not seen.contains(self.starting.place_of(key), exact=exact):
            return None
        try:
            request = self.session.serializer.load(sent.payload)
        except UnserializableError:  # it would not be fetched either
            return None
        return self.starting.second_use(request, sent.keys[0], form=sent.form)

    # Checkpoints

    def _more(self) -> int:
        """Count the work of a leader besides the requests of its partitions.

        That is ``start()``, its items in pipelines, and requests in memory: a request
        of ``start()`` belongs to no page in flight.
        """
        memory = self.frontier.memory
        return int(not self.starting.over) + memory.pending + memory.in_flight

    def steps(self, *, first: bool = False) -> Steps:
        """Write a checkpoint, or only show that this worker is alive; then sample."""
        if self.run.idle:
            commit = self.frontier.begin([])
            yield commit.send
            commit.done()
        else:
            yield from super().steps(first=first)
        if not self.session.closed:
            yield from self._sampling()
            if not first:  # or the spider is not open yet
                self._access.wake()

    def _sampling(self) -> Steps:
        """Sample the crawl after a commit, and take in the requests that were sent."""
        yield from self.frontier.sampling(self._saw)
        self._move()
        yield from self._take_cookies()
        self._takes_more = False
        if self.settings.retry_failed is not None and not self.session.closed:
            self.failures.retry()  # of partitions that came since
        # No more than that sample has seen: what came later may need other cookies.
        inboxes = self._sample.inboxes if self._sample else []
        sent = {n: min(inboxes[n], MOST_TAKEN) for n in self.frontier.staying()}
        yield from self.frontier.taking_in(
            {number: entries for number, entries in sent.items() if entries},
            self._take_in,
        )
        if not self._takes_more:
            say_added(self._added_by_user)

    def _saw(self, sample: Sample) -> None:
        self._sample, self.frontier.rules = sample, sample.rules

    def _take_in(self, number: int, entries: list[bytes]) -> None:
        self._takes_more = self._takes_more or len(entries) == MOST_TAKEN
        for entry in entries:
            try:
                sent = SentRequest.read(entry)
                if partition_of(sent.home) != number:
                    raise ValueError("it belongs to another partition")
            except ValueError as error:
                logger.error(  # noqa: TRY400 - the reason says it all
                    "A request in the inbox of %(place)s is dropped: %(why)s",
                    {"place": self.frontier.owner.stores[number].shown, "why": error},
                )
            else:
                self._receive(sent)

    def _move(self) -> None:
        """Go on with the record of another partition, if the home has changed."""
        if self._home == self.frontier.store.number:
            return
        self._home = self.frontier.store.number
        if self.memory is not None and self.frontier.leads:
            self.memory.take_over()
        self._read_record()

    def _read_record(self) -> None:
        """Go on with a record; a round that its leader has finished stays finished.

        Then ``start()`` is not called again. A run that stays open goes on.
        """
        notes, sample = self.frontier.seen.notes, self._sample
        finished = (
            self.frontier.leads
            and notes.get("run") == FINISHED
            and notes.get("started", 0) >= self.run.round
            and sample is not None
            and sample.finished
        )
        stays_so = finished and not self.settings.stay
        self.run.idle = self.run.idle or stays_so
        super()._read_record()
        self.starting.ended = finished
        if stays_so:
            self._say_end(FINISHED)

    async def may_start(self) -> bool:
        """Wait until this worker is the leader; False if there is no need to start."""
        while not (self.starting.ended or self.session.closed):
            if self.frontier.leads and self._refused is None:
                return True
            if self._has_finished():
                break
            await asyncio.sleep(PAUSE)
        return False

    def _has_finished(self) -> bool:
        """Whether nothing is left of this round."""
        if self._sample is None or not self._sample.finished:
            return False
        # Until the leader of a new round has committed, the last one seems to be left.
        run, owner = self.run, self.frontier.owner
        return not run.new_round or notes_of(owner).get("generation") == run.round

    def _take_added(self) -> bool:
        return self._takes_more

    @property
    def status(self) -> Status:
        """The status of the crawl, with the work of the other workers."""
        here, sample = super().status, self._sample
        if sample is None or len(sample.counts) < PARTITIONS or any(sample.inboxes):
            return here._replace(more=True)
        mine = self.frontier.partitions
        others = [one for number, one in sample.counts.items() if number not in mine]
        due = min((one.due for one in others if one.delayed), default=math.inf)
        return here._replace(
            more=here.more or any(one.work for one in others),
            in_flight=here.in_flight + sum(one.left for one in others),
            delayed=here.delayed + sum(one.delayed for one in others),
            due_in=min(here.due_in, due - time.time()),
        )

    # A refused commit

    def read_again(self) -> None:
        """Go on from the last commit, once a partition is here."""
        self._sent.clear()  # what was not sent yet is not seen
        super().read_again()
        say_who(self.frontier)
        self._home = self.frontier.store.number

    def refused(self, error: NotOwnerError) -> None:
        """Drop what is being read, too."""
        super().refused(error)
        self._reads.drop()

    # The end

    def fails_now(self) -> None:
        """Wait for Redis no more."""
        self.frontier.owner.client.stop_waiting()

    def _may_leave(self, number: int) -> bool:
        """Whether a partition has only requests that the store knows, and no record."""
        if number == self._home:
            return False
        partition = self.frontier.partitions[number]
        return not self.session.registry.any_volatile(
            lambda entry: entry.queue.slots.partition is partition
        )

    @property
    def totals(self) -> Totals:
        """The totals of all workers together."""
        found = [self.checkpoint.totals]
        owner, home = self.frontier.owner, self.frontier.store.number
        for number in set(range(PARTITIONS)) - {home}:
            with RedisStore(owner, number).snapshot() as snapshot:
                crawl = snapshot.record("crawl") or {}
            found.append(Totals(**crawl.get("totals", {})))
        return Totals.together(found)

    @property
    def output(self) -> str:
        """Where the items are: not in files yet."""
        if self.feeds is None or not self.feeds.taken:
            return ""
        return "Redis (`bloomdupe collect` writes them into files)"

    def close(self, reason: str) -> None:
        """Close the engine: other workers may take its partitions at once."""
        with on_signal(self.frontier.owner.client.stop_waiting):
            super().close(reason)
        self._reads.close()
        self.frontier.close(failed=self.session.stopping.failure is not None)


def _sent_key(key: bytes, request: Request) -> bytes:
    """Return the key of a request that was sent; its callback is part of it."""
    name = name_of(request.callback).encode(errors="backslashreplace")
    return b"%b %b" % (key, name)


def _forget_inherited_slot(request: Request, parent: Request) -> None:
    """Remove the slot that a request has inherited from its parent's host.

    Scrapy's downloader writes the slot into ``meta``; redirects and
    ``meta=response.meta`` pass it on. So pages of many hosts would be in one slot, and
    one worker would have all of them. A slot that a spider has named stays.
    """
    slot = request.meta.get("download_slot")
    if slot is not None and host_of(request.url) != slot == host_of(parent.url):
        del request.meta["download_slot"]
