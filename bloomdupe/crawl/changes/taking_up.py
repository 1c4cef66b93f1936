"""TakingUp: the owner of a job makes the changes that its inbox asks for."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.changes.change import steps_of
from bloomdupe.crawl.changes.news import news_of
from bloomdupe.errors import StoreMismatchError
from bloomdupe.printable import logger_of
from bloomdupe.store.format import FAILURES
from bloomdupe.store.inbox import Inbox
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bloomdupe.crawl.changes.change import Change
    from bloomdupe.crawl.changes.open_job import OpenJob
    from bloomdupe.store.batch import Batch
    from bloomdupe.store.snapshot import Snapshot

logger = logger_of(__name__)

RECORD = "inbox"
MOST_ANSWERS = 100
"""Answers that the store keeps for those who have asked."""


def answer_in(snapshot: Snapshot, name: str) -> dict[str, Any] | None:
    """Return the answer to a request of the inbox; None if it is not done."""
    record = snapshot.record(RECORD) or {}
    answer: dict[str, Any] | None = record.get("answers", {}).get(name)
    return answer


class TakingUp(Participant):
    """Makes changes step by step, each step together with the next commit.

    The record ``inbox`` of the store is a JSON object:

    ``answers``  the answers to the last requests of the inbox, by name: the counts of
                 the change, or ``refused`` with the reason. A request that has an
                 answer is done.
    ``begun``    name and counts so far of the request that is being taken up, if
                 there is one
    """

    def __init__(self, job: OpenJob) -> None:
        self.job = job
        self._inbox = Inbox(job.store.path)
        with job.store.snapshot() as snapshot:
            record = snapshot.record(RECORD) or {}
        self._answers: dict[str, dict[str, Any]] = record.get("answers", {})
        self._begun: tuple[str, dict[str, Any]] | None = None
        if record.get("begun"):
            self._begun = record["begun"][0], record["begun"][1]
        self._change: Change = {}
        self._steps: Iterator[None] | None = None
        self._aside: set[str] = set()
        self._changed = False

    # Making changes

    @property
    def has_work(self) -> bool:
        """Whether there are changes to make."""
        return self._steps is not None or bool(self._waiting())

    @property
    def name(self) -> str:
        """Name of the present change, for a message."""
        return f"The change {self._change.get('kind')!r}"

    def _waiting(self) -> list[str]:
        names = self._inbox.names()
        return [one for one in names if one not in self._aside] if names else names

    def step(self) -> None:
        """Make the next step of a change; everything before it must be committed.

        Raises the errors of reading the store.
        """
        if self._steps is None:
            self._begin()
        if self._steps is None or self._begun is None:
            return
        name, answer = self._begun
        self._changed = True
        try:
            next(self._steps)
        except StopIteration:
            self._end(name, answer)
        except StoreMismatchError as error:
            self._end(name, answer | {"refused": str(error)})

    def _begin(self) -> None:
        """Begin with the oldest request, and delete those that are done."""
        waiting = self._waiting()
        done = [name for name in waiting if name in self._answers]
        if done:
            self._inbox.remove(done)
        for name in waiting:
            if name not in self._answers:
                self._open(name)
                return

    def _open(self, name: str) -> None:
        """Begin with a request, or refuse it."""
        try:
            entry = self._inbox.read(name)
        except ValueError as error:
            self._aside.add(name)
            logger.error(  # noqa: TRY400 - the reason says it all
                "A change in the inbox cannot be read, and is not made: %(why)s. It is"
                " now %(place)s",
                {"why": error, "place": self._inbox.set_aside(name)},
            )
            return
        if self._begun is None or self._begun[0] != name:
            self._begun = name, {}
        self._change = entry
        try:
            self._steps = steps_of(entry)(self.job, self._begun[1])
        except ValueError as error:
            self._changed = True
            self._end(name, {"refused": str(error)})

    def _end(self, name: str, answer: dict[str, Any]) -> None:
        self._steps = self._begun = None
        kept = [*self._answers.items(), (name, answer)]
        self._answers = dict(kept[-MOST_ANSWERS:])
        news = news_of(self._change, answer)
        if news is not None:
            logger.info("%(news)s", {"news": news})

    def take_up_all(self, commit: Callable[[Part], None]) -> None:
        """Make all changes that the inbox asks for, before anything else is done."""
        while self.has_work:
            self.step()
            commit(self.prepare())

    def make(
        self,
        change: Change,
        commit: Callable[[Part], None],
        watched: Callable[..., Iterator[None]],
    ) -> dict[str, Any]:
        """Make a change that this process wants itself; return its answer.

        ``watched`` yields the steps, and shows their progress, by total and kind.
        """
        answer: dict[str, Any] = {}
        steps = chain(steps_of(change)(self.job, answer), [None])
        for _ in watched(steps, None, "steps"):
            commit(self.prepare())
        return answer

    # The checkpoint

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self._changed or bool(self.job.failures)

    def prepare(self) -> Part:
        """Return the answers for the next checkpoint, and failed requests."""
        job = self.job
        puts = dict(job.failures)
        changed, answers = self._changed, self._answers
        begun = None if self._begun is None else [self._begun[0], dict(self._begun[1])]

        def write(batch: Batch) -> None:
            if changed:
                batch.put_record(RECORD, {"answers": answers, "begun": begun})

        def done() -> None:
            self._changed = False
            for digest in puts:
                del job.failures[digest]

        return Part(changes={FAILURES: [*puts.items()]}, write=write, done=done)
