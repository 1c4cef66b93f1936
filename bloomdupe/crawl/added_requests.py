"""AddedRequests: a crawl takes in what ``bloomdupe add`` has left in its inbox."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.printable import logger_of
from bloomdupe.requests.layout import url_of
from bloomdupe.store.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.frontier import Frontier

logger = logger_of(__name__)

NOTE = "inbox"
TAKEN_IN, SEEN, BLOCKED = "taken_in", "seen", "blocked"
"""Names of counts: what becomes of a request that is added."""


def add_request(
    one: SentRequest,
    rules: Rules,
    seen: BloomFilter,
    push: Callable[[SentRequest], object],
) -> str:
    """Make a request pending by ``push``, if it is new; return its count's name.

    One with ``dont_filter`` is marked as seen only if it is a start request.
    """
    if rules.keep_out(one.slot, url_of(one.payload)):
        return BLOCKED
    key, exact = one.keys[0]
    if not one.dont_filter and seen.contains(key, exact=exact):
        return SEEN
    push(one)
    if one.start or not one.dont_filter:
        seen.add(key, exact=exact)
    return TAKEN_IN


def say_added(counts: Counter[str]) -> None:
    """Log what has become of requests, if there are any, and clear their counts."""
    if not counts:
        return
    seen, blocked = counts[SEEN], counts[BLOCKED]
    logger.info(
        "Added by `bloomdupe add`: %(counts)s",
        {
            "counts": plural(counts[TAKEN_IN], "request")
            + (f", {seen:,} known already" if seen else "")
            + (f", {blocked:,} blocked" if blocked else "")
        },
    )
    counts.clear()


class AddedRequests:
    """Takes in one message of the inbox after another, each with the next commit.

    ``add`` is called with each request, and returns the name of its count. The note
    ``inbox`` of the filter is the name of the last message that was taken in: it may
    not be deleted yet.
    """

    def __init__(self, frontier: Frontier, add: Callable[[SentRequest], str]) -> None:
        assert frontier.store is not None  # noqa: S101 - it is that of a job
        self._frontier = frontier
        self._inbox = Inbox(frontier.store.path)
        self._add = add
        self._counts = Counter[str]()

    @property
    def has_work(self) -> bool:
        """Whether there are messages."""
        return bool(self._inbox.names())

    def step(self) -> None:
        """Take in the next message; everything before it must be committed."""
        names = self._inbox.names()
        done = self._frontier.seen.notes.get(NOTE)
        if done in names:
            self._inbox.remove(done)
            names.remove(done)
        for name in names[:1]:
            self._take(name)
        if len(names) <= 1:
            say_added(self._counts)

    def _take(self, name: str) -> None:
        try:
            requests = [*map(SentRequest.read, self._inbox.read(name))]
        except ValueError as error:
            logger.error(  # noqa: TRY400 - the reason says it all
                "A message in the inbox cannot be read, and its requests are not"
                " added: %(why)s. It is now %(place)s",
                {"why": error, "place": self._inbox.quarantine(name)},
            )
            return
        self._counts.update(map(self._add, requests))
        self._frontier.seen.notes[NOTE] = name

    def take_all(self) -> None:
        """Take in all messages, before anything else is done."""
        while self.has_work:
            self.step()
            self._frontier.checkpoint()
