"""CrawlEngine: the engine of a crawl in a store, or in the memory of one process.

It promises:

1. A request that it has taken is handed out again and again, here or in another
   process, until it is acknowledged.
2. Acknowledging a request makes its children, its output and its end durable together,
   or none of them. Only children that the filter recognises are durable before.

No call waits for the network. An engine without an answer takes the request, and
decides later.
"""

from __future__ import annotations

import time
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.added_requests import AddedRequests, add_request
from bloomdupe.crawl.ending import Status
from bloomdupe.crawl.engines.checkpoint import Checkpoint
from bloomdupe.crawl.engines.committing import LONGEST_SILENCE, POLL, Committing
from bloomdupe.crawl.in_flight.outcomes import Outcome, Outcomes
from bloomdupe.crawl.in_flight.registry import stands_alone
from bloomdupe.crawl.progress.rounds import FINISHED, Run
from bloomdupe.crawl.progress.watch import Watch
from bloomdupe.crawl.retries import Revisits
from bloomdupe.crawl.starting import Starting
from bloomdupe.crawl.state.cookies import Cookies
from bloomdupe.crawl.state.failures import Failures
from bloomdupe.crawl.state.memory import SpiderMemory
from bloomdupe.crawl.state.rules import RulesInForce, text_of_rules
from bloomdupe.errors import NotOwnerError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.inside_scrapy.cookie_jars import CookieJars
from bloomdupe.inside_scrapy.engine import Timer
from bloomdupe.printable import logger_of, near
from bloomdupe.requests.layout import Visit
from bloomdupe.store import files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from bloomdupe.crawl.engines.checkpoint import Steps
    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.in_flight.outcomes import Key
    from bloomdupe.crawl.in_flight.request import Accepted, InFlightRequest
    from bloomdupe.crawl.progress.history import Totals
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.frontier.slot_queue import Entry

logger = logger_of(__name__)

LONGEST = 5.0
"""Seconds that a store is not read again because of callbacks that have begun."""


class CrawlEngine:
    """Frontier and checkpoint of an open crawl.

    Raises the errors of opening a feed, and what the store has. ``filtered`` says that
    a filter remembers the requests that it lets pass, so that each must be durable at
    once.
    """

    def __init__(self, session: Session, frontier: Frontier, *, filtered: bool) -> None:
        settings = self.settings = session.settings
        self.session = session
        self.frontier = frontier
        self._crawler = session.crawler
        self._stats = session.stats
        self._filtered = filtered
        self._access = session.access
        self.durable = settings.durable
        self._unmarked: set[bytes] = set()
        """Keys of requests in memory only: a request that a crash loses must not have
        been marked."""
        self._refused: NotOwnerError | None = None
        self._reading = Timer(self._on_refusal)
        self.rules = self._open_rules()
        session.slots.attach(frontier, self.rules)
        self._added = self._open_inbox()
        self.run = self._open_run()
        self.outcomes = Outcomes(settings.directory)
        self.failures = Failures(self)
        self.starting = Starting(session, self.run)
        self._restore()
        self.committing = Committing(self)

    # Opening

    def _open_rules(self) -> RulesInForce:
        directory = self.settings.directory
        if directory is None:
            return RulesInForce(lambda: None, None, self._stats)
        read = partial(text_of_rules, directory)
        return RulesInForce(read, directory / files.RULES, self._stats)

    def _open_inbox(self) -> AddedRequests | None:
        """Take in the requests that were added when the last run had ended."""
        if self.settings.directory is None:
            return None
        added = AddedRequests(self.frontier, self._add)
        added.take_all()
        return added

    def _add(self, one: SentRequest) -> str:
        return add_request(one, self.rules.now, self.frontier.seen, self._push)

    def _push(
        self,
        one: SentRequest,
        attachment: Request | None = None,
        *,
        is_part: bool = False,
        volatile: bool = False,
    ) -> Entry:
        """Make a request pending here."""
        where = "disk" if self.durable and not is_part else "memory"
        self._stats.inc_value(f"scheduler/enqueued/{where}")
        self._stats.inc_value("scheduler/enqueued")
        return self.frontier.push(
            one.slot,
            one.priority,
            None if is_part else one.payload,
            start=one.start,
            attachment=attachment,
            not_before=one.not_before,
            volatile=volatile,
        )

    def _open_run(self) -> Run:
        frontier, settings = self.frontier, self.settings
        # One that has waited for a partition all the round long begins no other round.
        again = settings.start_requests == "again" and not frontier.waited_for_round
        # Others than the leader have work as long as anybody has.
        pending = len(self) if frontier.leads else int(not again)
        notes, stays = frontier.seen.notes, settings.stay
        return Run(notes, pending=pending, again=again, stays=stays)

    @property
    def shown(self) -> str:
        """The job, as it is named in messages."""
        assert self.frontier.store is not None  # noqa: S101 - or there is no job
        return near(str(self.frontier.store.path.parent))

    def _restore(self) -> None:
        """Restore the state of the last checkpoint."""
        session, frontier, run = self.session, self.frontier, self.run
        self.checkpoint = Checkpoint(self._crawler, frontier, self.outcomes)
        record = self.checkpoint.record
        self.feeds = self.checkpoint.feeds = self._open_feeds(record)
        self.memory = None
        if self.feeds is not None:
            self.memory = SpiderMemory(self, self.feeds.parameters)
        self.revisits = Revisits(self)
        # What other workers, or an earlier run, have learned of servers.
        known = run.resumed or self.settings.is_shared
        if self.durable and known and self._access.throttled:
            self._access.restore_delays(session.slots.delay_of)
        self.cookies = self._open_cookies()
        self.failures.left = record.get("failures_left", 0)
        self.watch = Watch(self)
        slots = session.slots if self.durable else None
        others = self.memory, slots, self.cookies, self.failures, self.watch.history
        self.checkpoint.participants += [one for one in others if one is not None]

    def _open_feeds(self, record: dict[str, Any]) -> FeedExporter | None:
        session, directory = self.session, self.settings.directory
        if not self.durable:
            return None
        feeds = FeedExporter.of(self._crawler)
        left = None
        if directory is not None:  # or it is a worker's
            left = StoredFeeds(record, directory, resumed=self.run.resumed)
        feeds.restore(left)
        if left is not None:
            left.delivered.go_back()
        feeds.fail = session.stopping.fail
        return feeds

    def _open_cookies(self) -> Cookies | None:
        """Go on with the cookies of this round, if Scrapy's middleware has any."""
        jars = CookieJars.of(self._crawler) if self.durable else None
        return None if jars is None else Cookies(self, jars)

    def open(self) -> None:
        """Begin to write checkpoints."""
        if not self.run.idle:
            self._begin_run()
        self.failures.retry()
        if self.run.idle:
            self.checkpoint.totals.show(self._stats)
        else:
            try:
                self.committing.write_first()
            except NotOwnerError as error:  # since it has joined
                self.refused(error)
        self.watch.begin()
        self.committing.begin()

    async def may_start(self) -> bool:
        """Wait until ``start()`` may run; False if there is no need."""
        return not self.starting.ended

    def start_began(self) -> None:
        """Note an output of ``start()``, or its end."""
        if self.memory is not None and self.memory.start_began():
            self._access.wake()

    def push_failed(self, sent: SentRequest) -> None:
        """Make a failed request pending again."""
        self.has_work()
        self._deliver(sent)

    def _deliver(self, sent: SentRequest) -> None:
        """Make a request pending that is no output of a page."""
        self._push(sent)

    def has_work(self) -> None:
        """Begin the run, if the job was finished and there is new work."""
        if self.run.idle:
            self.run.begin()
            self._begin_run()

    def _begin_run(self) -> None:
        self.checkpoint.begin_run()
        self.watch.sample(begins=True)

    # Acceptance

    def slot_of(self, request: Request) -> str:
        """Return the downloader's slot of a request that the running code yields."""
        return self._access.slot_of(request)

    def host_of(self, request: Request, slot: str) -> str | None:
        """Return the host of a request, if another partition knows its keys."""
        return None

    def knows(
        self,
        key: bytes,
        *,
        exact: bool,
        of: Request | None = None,
    ) -> bool:
        """Whether a key ``of`` a request is certainly seen; asked for every link.

        Without a request it is a key of ``start()``.
        """
        return key in self._unmarked or self.frontier.seen.contains(key, exact=exact)

    def has_room(self, request: Request) -> bool:
        """Whether the slot of a request may have another; its worker decides."""
        slots = self.session.slots
        if not slots.limited:
            return True
        slot = self.slot_of(request)
        return not self.frontier.is_here(slot) or slots.room_for(slot)

    def take(self, accepted: Accepted) -> None:
        """Make a request pending, and mark it."""
        if self.run.idle:
            self.has_work()
        request, sent, work, _, is_part = accepted
        checked = self._filtered and not request.dont_filter
        volatile = self.durable and work is not None and not (checked or is_part)
        if work is not None and (volatile or is_part):
            work.begun = True
        if work is not None and sent.payload:
            visit = self._inherited(request, work, repeats=sent.repeats)
            if visit != Visit():
                sent = sent._replace(payload=visit.added_to(sent.payload))
        if self.durable and accepted.is_loose:
            self.outcomes.ack(Outcome(accepted))
        here = self.frontier.is_here
        if not (is_part or (here(sent.slot) and here(sent.home))):
            self._send(accepted, sent, volatile=volatile)
            return
        entry = self._push(
            sent,
            None if sent.payload else request,
            is_part=is_part,
            volatile=volatile,
        )
        if not sent.dont_filter:
            self.session.slots.took(sent.slot)
        if is_part:
            self._unmarked.update(key for key, _ in sent.keys)
            alone = checked and bool(sent.keys)
            alone = alone and stands_alone(request, self.session.spider)
            self.session.registry.expect_part(entry, accepted, alone=alone)
        else:
            self._expect_stored(entry, accepted)
        if self.frontier.due:
            self.committing.commit_soon()

    def _inherited(
        self, request: Request, work: InFlightRequest, *, repeats: bool
    ) -> Visit:
        """Return the visit that a request inherits from the work that yields it."""
        if repeats:
            return self.revisits.follow(work, request.url)
        if work.failed:  # an errback may ask again by itself
            return Visit(failure=self.failures.repeated_by(request, work))
        return Visit()

    def _expect_stored(self, entry: Entry, accepted: Accepted) -> None:
        """Mark a request as seen, and note it if it is not durable by itself.

        A fingerprint that it shares with a request in memory is marked when that
        request is done: after a crash, the other one must not count as seen.
        """
        request, sent, work, of_start, _ = accepted
        for key, exact in sent.keys:
            if key not in self._unmarked:
                self._mark(key, exact, sent.home, of_start=of_start)
        if entry.volatile and work is not None:  # or it would be durable
            child = self.session.registry.expect_volatile(entry, work)
            if sent.repeats and request.url == work.request.url:
                child.first = work.first
        elif self.durable and accepted.is_loose:
            self.session.registry.expect_loose(entry)
            self.committing.commit_shortly()

    def _send(self, accepted: Accepted, sent: SentRequest, *, volatile: bool) -> None:
        """Send a request to the worker that keeps the requests of its slot."""
        raise NotImplementedError

    def _mark(
        self,
        key: bytes,
        exact: bool,
        home: str | None,
        *,
        of_start: bool,
    ) -> None:
        """Mark a key as seen, of a request with this home, or one without any."""
        self.frontier.seen.add(key, exact=exact)

    def mark_acked(
        self, keys: Sequence[Key], home: str | None, *, of_start: bool
    ) -> None:
        """Mark requests that lived in memory, and are acknowledged now, as seen."""
        for key, exact in keys:
            self._unmarked.discard(key)
            self._mark(key, exact, home, of_start=of_start)

    def schedule_visit(self, visit: SentRequest) -> None:
        """Schedule a page for its next visit, if it is not revisited already."""
        here = self.frontier.is_here
        if not (here(visit.slot) and here(visit.home)):
            self._deliver(visit)
            return
        seen = self.frontier.of_slot(visit.home).seen
        new = [seen.add(key) for key, _ in visit.keys]
        if visit.dont_filter or all(new):
            self._push(visit)

    # Handing out

    def next(self) -> Entry | None:
        """Hand out a request of a slot that is free, if there is any.

        One whose page was left is dropped.
        """
        waits = self.memory is not None and self.memory.awaits_start
        if waits or self._refused is not None:
            return None
        entry, registry = self.frontier.pop(), self.session.registry
        while entry is not None and entry.volatile and registry.drops(entry):
            self.frontier.ack(entry)
            entry = self.frontier.pop()
        if entry is None and not (self.frontier.pending or registry):
            self.session.ending.log_sleep()
        return entry

    def keeps_out(self, entry: Entry, request: Request) -> bool:
        """Remove a request that is handed out if a rule refuses it by now."""
        if not self.rules.drop(entry.queue.name, request.url):
            return False
        registry = self.session.registry
        if entry.payload is None or entry.volatile:  # it belongs to a page
            in_flight = registry.add(request, entry)
            in_flight.release()
            registry.end(in_flight)
            return True
        self.frontier.ack(entry)
        self.failures.kept_out(entry.queue.name, entry.payload)
        return True

    # How requests in flight end

    def ended(self, in_flight: InFlightRequest) -> None:
        """Handle the end of a request, which may be a part of another request."""
        outcome = in_flight.outcome
        if in_flight.failed or len(self.failures) or in_flight.visit.failure:
            outcome.then.append(partial(self.failures.ended, in_flight))
        if in_flight is not in_flight.root:
            self.frontier.ack(in_flight.entry)

    def ack(self, root: InFlightRequest) -> None:
        """End a request that is done, with all its parts."""
        self.frontier.ack(root.entry)
        outcome = root.outcome
        try:
            for call in outcome.then:
                call()
            if root.is_revisited:
                self.revisits.acked(root)
        except Exception as error:  # noqa: BLE001 - of a look-up, or a fingerprinter
            self.session.stopping.fail(error, "Ending a request")
        outcome.then.clear()
        self.outcomes.ack(outcome)

    def save(self, root: InFlightRequest) -> None:
        """Make a volatile request durable with the next checkpoint."""
        self.frontier.save(root.entry)
        if self.frontier.due:
            self.committing.commit_soon()

    def leave(self, root: InFlightRequest) -> None:
        """Keep a request that has ended, but is not done: it is handed out again.

        A volatile request of a page that is left is dropped: the page yields it again.
        """
        self.outcomes.forget(root.outcome)
        page = root.page
        if page is None:
            self.frontier.leave(root.entry)
        elif page.is_left or not root.is_volatile:
            self.frontier.ack(root.entry)  # the page yields it again

    # The end

    def __len__(self) -> int:
        """Count the requests that are pending or delayed."""
        return self.frontier.pending + self.frontier.waiting

    @property
    def status(self) -> Status:
        """The status of the crawl, as far as it depends on requests."""
        frontier = self.frontier
        return Status(
            ready=frontier.pending,
            in_flight=frontier.unacked,
            delayed=frontier.waiting,
            due_in=frontier.next_due - time.time(),
            more=self._refused is not None
            or (self._added is not None and self._added.has_work),
            start_ended=self.starting.over,
        )

    # Checkpoints

    def steps(self, *, first: bool = False) -> Steps:
        """Write a checkpoint in steps: see :meth:`Checkpoint.steps`."""
        return self.checkpoint.steps(first=first)

    @property
    def holds(self) -> bool:
        """Whether callbacks that have not begun must wait for a checkpoint."""
        return self.committing.quiet.holds or self._refused is not None

    def fails(self) -> bool:
        """Whether nothing may be committed: the previous checkpoint is still valid."""
        keeps_last = self.session.stopping.keeps_last
        idle = self.run.idle and not self.settings.is_shared
        return keeps_last or self._refused is not None or idle

    def after_commit(self) -> bool:
        """Obey the user; return whether the next commit should come soon."""
        before = self.rules.update()
        if before is not None:
            for slot in before.paused - self.rules.now.paused:
                self.frontier.ask_again(slot)
            if self.rules.now.stop != before.stop:
                self.session.stopping.stop()
            self._access.wake()
        return self._take_added()

    def _take_added(self) -> bool:
        """Take in some requests of the inbox; return whether there were any."""
        added, stopping = self._added, self.session.stopping
        if added is None or stopping.failure is not None or not added.has_work:
            return False
        self.has_work()
        try:
            added.step()
        except Exception as error:  # noqa: BLE001 - or no checkpoint would follow
            stopping.fail(error, "Adding requests")
        self._access.wake()
        return True

    # A refused commit

    def refused(self, error: NotOwnerError) -> None:
        """Go on from the last commit, soon: another owner has written, or the past.

        Not within the call that has found out, and not while callbacks are at work that
        have begun. Until then nothing is handed out or committed.
        """
        logger.warning(
            "A commit was refused: %(error)s. The crawl goes on from the last commit",
            {"error": error},
        )
        self._refused = error
        self.starting.drop()
        self._patience = monotonic() + LONGEST
        self._reading.set(0)

    def _on_refusal(self) -> None:
        """Read the store again, when no callback changes the spider any more."""
        self.session.registry.leave_all()
        busy = self.session.processing.busy and monotonic() < self._patience
        if busy or self.committing.is_out:
            self._reading.set(POLL)
            return
        try:
            if self.frontier.join():
                self.read_again()
            else:
                self._reading.set(LONGEST_SILENCE)
        except Exception as error:  # noqa: BLE001 - or nothing would go on
            self.session.stopping.fail(error, "Reading the store again")

    def read_again(self) -> None:
        """Drop all that is in memory, and go on with the frontier of the last commit.

        Pages run again, and so does ``start()``, as after a kill. Requests of neither
        are kept. Cookies are; of servers, what the last commit knew.
        """
        self.session.registry.leave_all()
        loose = self.outcomes.drop()
        self._unmarked.clear()
        self._read_record()
        if self.memory is not None:
            self.memory.read_again()
        self._refused = None
        if self.session.link_filter is not None:
            self.session.link_filter.forget()
        for accepted in loose:
            of, keys = accepted.request, accepted.sent.keys
            # Another owner may have taken it before, and marked all its keys. The first
            # alone is also that of a start page, which it uses for another purpose.
            known = [self.knows(key, exact=exact, of=of) for key, exact in keys]
            if not (known and all(known)):
                self.take(accepted)
        self._access.wake()

    def _read_record(self) -> None:
        """Go on with the record of the last commit, maybe of another partition."""
        self.run.read_again(self.frontier.seen.notes)
        self.checkpoint.read_again()
        self.failures.left = self.checkpoint.record.get("failures_left", 0)
        self.starting.restart()

    @property
    def totals(self) -> Totals:
        """The totals of the whole crawl."""
        return self.checkpoint.totals

    @property
    def output(self) -> str:
        """Where the items are, for a message, without passwords; "" without feeds."""
        feeds = self.checkpoint.record.get("feeds", {})
        return ", ".join(feed["uri"] for feed in feeds.values())

    def fails_now(self) -> None:
        """Note that the run has failed, and is about to close."""

    def close(self, reason: str) -> None:
        """Write the last checkpoint and the reason of the run's end; stop watching."""
        self.committing.close()
        self._reading.cancel()
        if self._refused is not None:
            self.session.stopping.fail(self._refused)
        self.watch.end()
        if self.feeds is not None:
            self.feeds.end(finished=reason == FINISHED)
        stopping = self.session.stopping
        if stopping.failure is None and self.committing.is_last_better(reason):
            stopping.as_killed = True
            self.session.ending.say_as_killed()
        self.committing.write()
        if not (self.run.idle or stopping.keeps_last):
            # When the last items are in their files: until then, nothing has ended.
            self.run.end(reason)
            self.watch.sample(reason)
            self.committing.write()
        if not (self.run.idle or stopping.keeps_last):
            self._say_end(reason)
        self.outcomes.close()
        self.failures.end()
        for name, value in (
            ("pending", len(self)),
            ("delayed", self.frontier.waiting),
            ("unfinished", self.frontier.unacked),
            ("checkpoint_seconds_max", round(self.watch.longest, 4)),
        ):
            self._stats.set_value(f"bloomdupe/{name}", value)

    def _say_end(self, reason: str) -> None:
        """Log how the run ends, and where its items are."""
        totals = self.totals
        where = self.output if totals.items else ""
        self.session.ending.say_end(reason, totals, where and f" in {where}")
