"""Change: a change that a user makes to a job, whether a crawl runs it or not.

A change is applied in steps, each followed by a commit, so a crawl goes on between the
steps. If the process ends between two of them, the change is applied once more and
does the rest. It writes its result into ``answer``, which is committed with each step.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bloomdupe.crawl.changes.asked import Asked
from bloomdupe.crawl.changes.requeued_failures import RequeuedFailures
from bloomdupe.crawl.changes.selection import Search, Selection
from bloomdupe.crawl.leases.failure import Failure
from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.crawl.state.blocked import described
from bloomdupe.errors import StoreMismatchError, UnserializableError
from bloomdupe.frontier.pending_requests import count_pending, portions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from bloomdupe.crawl.changes.open_job import OpenJob
    from bloomdupe.frontier.pending_requests import PendingRequest

    Answer: TypeAlias = dict[str, Any]

__all__ = ["CHANGES", "Change", "change_of"]


class Change(ABC):
    """A change. Its fields are those of its JSON object, with ``kind``."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def values(self) -> dict[str, Any]:
        """The fields as plain types, for JSON."""

    @classmethod
    @abstractmethod
    def of(cls, values: dict[str, Any]) -> Change:
        """Return the change with these :attr:`values`.

        Raises :class:`ValueError`, :class:`KeyError` or :class:`TypeError` if they are
        none.
        """

    @abstractmethod
    def steps(self, job: OpenJob, answer: Answer) -> Iterator[None]:
        """Apply it; a ``yield`` ends each step but the last.

        Everything before a step is committed. All effects that must not happen twice
        are in the last step, which is committed together with the answer.

        Raises :class:`StoreMismatchError` if the job does not have its object.
        """


@dataclass(frozen=True)
class Addition(Change):
    """Makes requests pending that the job has not seen: one step."""

    kind: ClassVar[str] = "add"
    requests: list[Asked]

    @property
    def values(self) -> dict[str, Any]:
        """See :attr:`Change.values`."""
        return {"requests": [one.values for one in self.requests]}

    @classmethod
    def of(cls, values: dict[str, Any]) -> Addition:
        """See :meth:`Change.of`."""
        return cls([*map(Asked.of, values["requests"])])

    def steps(self, job: OpenJob, answer: Answer) -> Iterator[None]:
        """See :meth:`Change.steps`."""
        answer |= {"taken_in": 0, "seen": 0, "blocked": 0}
        for one in self.requests:
            if job.blocks(one.slot, one.payload):
                answer["blocked"] += 1
            elif not one.dont_filter and job.seen.contains(one.key, exact=one.exact):
                answer["seen"] += 1
            else:
                job.push_asked(one)
                job.seen.add(one.key, exact=one.exact)
                answer["taken_in"] += 1
        yield from ()


@dataclass(frozen=True)
class Repetition(Change):
    """Makes pages pending again that are done, in its last step.

    Pages that are pending or in progress are left, and so are pages that were never
    seen.
    """

    kind: ClassVar[str] = "requeue"
    requests: list[Asked]

    @property
    def values(self) -> dict[str, Any]:
        """See :attr:`Change.values`."""
        return {"requests": [one.values for one in self.requests]}

    @classmethod
    def of(cls, values: dict[str, Any]) -> Repetition:
        """See :meth:`Change.of`."""
        return cls([*map(Asked.of, values["requests"])])

    def steps(self, job: OpenJob, answer: Answer) -> Iterator[None]:
        """See :meth:`Change.steps`."""
        answer |= {"taken_in": 0, "waited": 0, "unseen": 0, "blocked": 0}
        wanted: dict[bytes, Asked] = {}
        for one in self.requests:
            if not job.seen.contains(one.key, exact=one.exact):
                answer["unseen"] += 1
            elif job.blocks(one.slot, one.payload):
                answer["blocked"] += 1
            else:
                wanted[one.key] = one
        if wanted:
            search = Search({key: one.url for key, one in wanted.items()}, job.keys)
            for found in portions(job.store):
                for key in map(search.key_of, found):
                    if key is not None and wanted.pop(key, None) is not None:
                        answer["waited"] += 1
                yield
        for one in wanted.values():
            job.push_asked(one)
        answer["taken_in"] = len(wanted)


@dataclass(frozen=True)
class FailuresAgain(Change):
    """Makes failed requests pending again: one step.

    Each stays among the failed requests until it succeeds. A request that could not be
    stored is a problem in the answer.
    """

    kind: ClassVar[str] = "requeue failed"
    selection: Selection
    reasons: tuple[str, ...]

    @property
    def values(self) -> dict[str, Any]:
        """See :attr:`Change.values`."""
        return {**self.selection.values, "reasons": self.reasons}

    @classmethod
    def of(cls, values: dict[str, Any]) -> FailuresAgain:
        """See :meth:`Change.of`."""
        return cls(
            Selection.of(values["slot"], values["pattern"]), tuple(values["reasons"])
        )

    def steps(self, job: OpenJob, answer: Answer) -> Iterator[None]:
        """See :meth:`Change.steps`."""
        answer |= {"taken_in": 0, "waited": 0, "blocked": 0, "problems": []}
        with job.store.snapshot() as snapshot:
            for digest, data in snapshot.failures():
                one = Failure.unpacked(data)
                if not one.is_to_retry(self.reasons):
                    continue
                if self.selection.has(one.slot, one.url):
                    self._repeat(job, digest, one, answer)
        yield from ()

    def _repeat(
        self, job: OpenJob, digest: bytes, one: Failure, answer: Answer
    ) -> None:
        if one.waiting:
            answer["waited"] += 1
        elif one.payload is None:
            source = one.parent or "the page that has led to it"
            problem = (
                "it could not be stored, or its page comes again by itself;"
                f" {source} yields it again"
            )
            answer["problems"].append([one.url, problem])
        elif _is_blocked(job, one.slot, one.payload):
            answer["blocked"] += 1
        else:
            job.push(one.slot, one.priority, one.payload)
            job.failures[digest] = one._replace(waiting=True).packed()
            answer["taken_in"] += 1


def _is_blocked(job: OpenJob, slot: str, payload: bytes) -> bool:
    try:
        return job.blocks(slot, payload)
    except UnserializableError:
        return False  # the crawl says so


@dataclass(frozen=True)
class Dropping(Change):
    """Removes pending requests, a portion in each step.

    Requests in progress go on, and are counted.
    """

    kind: ClassVar[str] = "drop"
    selection: Selection
    pages: dict[bytes, str]
    """The URL of each fingerprint; if there are any, only requests for them."""

    @property
    def values(self) -> dict[str, Any]:
        """See :attr:`Change.values`."""
        pages = {key.hex(): url for key, url in self.pages.items()}
        return {**self.selection.values, "pages": pages}

    @classmethod
    def of(cls, values: dict[str, Any]) -> Dropping:
        """See :meth:`Change.of`."""
        pages = {bytes.fromhex(key): url for key, url in values["pages"].items()}
        return cls(Selection.of(values["slot"], values["pattern"]), pages)

    def steps(self, job: OpenJob, answer: Answer) -> Iterator[None]:
        """See :meth:`Change.steps`."""
        answer.setdefault("dropped", 0)
        answer["in_progress"] = 0
        search = Search(self.pages, job.keys) if self.pages else None
        requeued = RequeuedFailures(job.store)
        for found in portions(job.store, self.selection.slot):
            chosen = [one for one in found if self._has(one, search)]
            pending = [one for one in chosen if not job.frontier.is_out(one)]
            job.frontier.remove(pending)
            job.failures |= requeued.removed(pending)
            answer["dropped"] += len(pending)
            answer["in_progress"] += len(chosen) - len(pending)
            yield
        answer["left"] = count_pending(job.store)

    def _has(self, one: PendingRequest, search: Search | None) -> bool:
        if search is not None and search.key_of(one) is None:
            return False
        if self.selection.pattern is None:
            return True
        try:
            return self.selection.has(one.slot, summary_of(one.payload).url)
        except UnserializableError:
            return False


@dataclass(frozen=True)
class Refusal(Change):
    """Adds rules that keep requests out, and removes the requests that match.

    Or it deletes rules (``undo``).
    """

    kind: ClassVar[str] = "block"
    rules: list[dict[str, Any]]
    dropping: Dropping
    undo: bool

    @property
    def values(self) -> dict[str, Any]:
        """See :attr:`Change.values`."""
        return {"rules": self.rules, "undo": self.undo, **self.dropping.values}

    @classmethod
    def of(cls, values: dict[str, Any]) -> Refusal:
        """See :meth:`Change.of`."""
        return cls(values["rules"], Dropping.of(values), bool(values["undo"]))

    def steps(self, job: OpenJob, answer: Answer) -> Iterator[None]:
        """See :meth:`Change.steps`."""
        answer |= {"dropped": answer.get("dropped", 0), "in_progress": 0}
        if self.undo:
            answer["rules"] = job.rules = self._deleted(job.rules)
            return
        there = job.rules
        job.rules = there + [rule for rule in self.rules if rule not in there]
        answer["rules"] = job.rules
        yield
        yield from self.dropping.steps(job, answer)

    def _deleted(self, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for rule in self.rules:
            same = [
                one
                for one in rules
                if one == rule or ("key" in rule and one.get("key") == rule["key"])
            ]
            if not same:
                raise StoreMismatchError(f"there is no such rule: {described(rule)}")
            rules = [one for one in rules if one not in same]
        return rules


@dataclass(frozen=True)
class SlotPause(Change):
    """Pauses a slot, or lets it go on (``undo``): one step."""

    kind: ClassVar[str] = "pause"
    slot: str
    undo: bool

    @property
    def values(self) -> dict[str, Any]:
        """See :attr:`Change.values`."""
        return {"slot": self.slot, "undo": self.undo}

    @classmethod
    def of(cls, values: dict[str, Any]) -> SlotPause:
        """See :meth:`Change.of`."""
        return cls(str(values["slot"]), bool(values["undo"]))

    def steps(self, job: OpenJob, answer: Answer) -> Iterator[None]:
        """See :meth:`Change.steps`."""
        before = set(job.paused)
        if self.undo and self.slot not in before:
            paused = ", ".join(sorted(before)) or "none"
            raise StoreMismatchError(
                f"slot {self.slot!r} is not paused; paused slots: {paused}"
            )
        job.paused = before - {self.slot} if self.undo else before | {self.slot}
        if self.undo:
            job.frontier.ask_again(self.slot)
        answer["paused"] = job.paused
        answer["pending"] = job.frontier.pending_in(self.slot)
        yield from ()


CHANGES: dict[str, type[Change]] = {
    one.kind: one
    for one in (Addition, Repetition, FailuresAgain, Dropping, Refusal, SlotPause)
}


def change_of(entry: dict[str, Any]) -> Change:
    """Return the change that an entry of the inbox asks for.

    Raises :class:`ValueError` for an entry that this version does not understand.
    """
    kind = entry.get("kind")
    if kind not in CHANGES:
        raise ValueError(f"this version knows no change {kind!r}")
    try:
        return CHANGES[kind].of(entry)
    except (ValueError, KeyError, TypeError, AttributeError, re.error) as error:
        raise ValueError(f"the change {kind!r} is not written as expected") from error
