"""AddedRequests: a crawl takes in what ``bloomdupe add`` has left in its inbox."""

from __future__ import annotations

import base64
from collections import Counter
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.printable import logger_of
from bloomdupe.requests.layout import url_of
from bloomdupe.store.format import META, meta_records
from bloomdupe.store.inbox import Inbox
from bloomdupe.store.store import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.store.store import Store

logger = logger_of(__name__)

RECORD = "inbox"
TAKEN_IN, SEEN, BLOCKED = "taken_in", "seen", "blocked"
"""Names of counts: what becomes of a request that is added."""


def add_request(
    one: SentRequest,
    rules: Rules,
    seen: BloomFilter,
    push: Callable[[SentRequest], object],
) -> str:
    """Make a request pending by ``push``, if it is new; return its count's name."""
    if rules.keep_out(one.slot, url_of(one.payload)):
        return BLOCKED
    key, exact = one.keys[0]
    if not one.dont_filter and seen.contains(key, exact=exact):
        return SEEN
    push(one)
    seen.add(key, exact=exact)
    return TAKEN_IN


def message_of(requests: list[SentRequest]) -> dict[str, Any]:
    """Return the message of the inbox that adds these requests."""
    return {"requests": [base64.b64encode(one.packed).decode() for one in requests]}


def _read(message: dict[str, Any]) -> list[SentRequest]:
    entries = (base64.b64decode(one, validate=True) for one in message["requests"])
    return [*map(SentRequest.read, entries)]


class AddedRequests(Participant):
    """Takes in one message of the inbox after another, each with the next commit.

    ``add`` is called with each request, and returns the name of its count. The record
    ``inbox`` of the store is a JSON object with the list ``done``: the names of the
    messages that are taken in, and may not be deleted yet.
    """

    def __init__(self, store: Store, add: Callable[[SentRequest], str]) -> None:
        self._store = store
        self._inbox = Inbox(store.path)
        self._add = add
        self._quarantined: set[str] = set()
        self._counts = Counter[str]()
        self.read_again()

    def read_again(self) -> None:
        """Take in again what no commit has taken in."""
        with self._store.snapshot() as snapshot:
            record = snapshot.record(RECORD) or {}
        self._done: list[str] = record.get("done", [])
        self._changed = False

    @property
    def has_work(self) -> bool:
        """Whether there are messages."""
        return bool(self._waiting())

    def _waiting(self) -> list[str]:
        names = self._inbox.names()
        return (
            [one for one in names if one not in self._quarantined] if names else names
        )

    def step(self) -> None:
        """Take in the next message; everything before it must be committed."""
        waiting = self._waiting()
        done = [name for name in waiting if name in self._done]
        if done:
            self._inbox.remove(done)
        new = [name for name in waiting if name not in self._done]
        for name in new[:1]:
            self._take(name)
        if len(new) <= 1 and self._counts:
            self._say()

    def _take(self, name: str) -> None:
        try:
            message = self._inbox.read(name)
            requests = _read(message)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._quarantined.add(name)
            logger.error(  # noqa: TRY400 - the reason says it all
                "A message in the inbox cannot be read, and its requests are not"
                " added: %(why)s. It is now %(place)s",
                {
                    "why": error if type(error) is ValueError else repr(error),
                    "place": self._inbox.quarantine(name),
                },
            )
            return
        self._counts.update(map(self._add, requests))
        self._done = [name]
        self._changed = True

    def _say(self) -> None:
        counts, self._counts = self._counts, Counter()
        seen, blocked = counts[SEEN], counts[BLOCKED]
        logger.info(
            "Added by `bloomdupe add`: %(counts)s",
            {
                "counts": plural(counts[TAKEN_IN], "request")
                + (f", {seen:,} known already" if seen else "")
                + (f", {blocked:,} blocked" if blocked else "")
            },
        )

    def take_all(self, commit: Callable[[Part], None]) -> None:
        """Take in all messages, before anything else is done."""
        while self.has_work:
            self.step()
            commit(self.prepare())

    # The checkpoint

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self._changed

    def prepare(self) -> Part:
        """Return the names of the messages for the next checkpoint."""
        if not self._changed:
            return Part()
        done = self._done

        def written() -> None:
            self._changed = False

        changes = meta_records({RECORD: {"done": done}})
        return Part(changes={META: changes}, done=written)
