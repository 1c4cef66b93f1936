"""Change: a change that a user makes to a job, whether a crawl runs it or not.

A change is a JSON object with its ``kind`` and its fields: in the process that asks for
it, in the inbox, and in the process that makes it. :func:`steps_of` reads it.

A change is applied in steps, each followed by a commit, so a crawl goes on between the
steps. If the process ends between two of them, the change is applied once more and
does the rest. All effects that must not happen twice are in the last step. A change
writes its result into ``answer``, which is committed with each step.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from bloomdupe.crawl.changes.selection import Search, Selection
from bloomdupe.crawl.leases.failure import Failure, stored_failures
from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.crawl.state.blocked import changed_rules, read_rules
from bloomdupe.errors import StoreMismatchError, UnserializableError
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.pending_requests import count_pending, pending_that, portions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from bloomdupe.crawl.changes.open_job import OpenJob
    from bloomdupe.store.store import Store

    Change: TypeAlias = dict[str, Any]
    Answer: TypeAlias = dict[str, Any]
    Steps: TypeAlias = Callable[[OpenJob, Answer], Iterator[None]]
    Name = TypeVar("Name")
    """Applies a change; a ``yield`` ends each step but the last. Raises
    :class:`StoreMismatchError` if the job does not have the object of the change.
    """


def steps_of(change: Change) -> Steps:
    """Return the steps of a change.

    Raises :class:`ValueError` for a change that this version does not understand.
    """
    kind = change.get("kind")
    if kind not in _KINDS:
        raise ValueError(f"this version knows no change {kind!r}")
    try:
        return _KINDS[kind](change)
    except (ValueError, KeyError, TypeError, AttributeError, re.error) as error:
        raise ValueError(f"the change {kind!r} is not written as expected") from error


class Asked(NamedTuple):
    """A request to make pending, with its fingerprint."""

    url: str
    key: bytes
    exact: bool
    """Whether the fingerprint must be kept exactly."""
    slot: str
    priority: int
    payload: bytes
    start: bool
    """Whether it comes last within its priority, as start requests do."""
    dont_filter: bool
    not_before: float | None
    """Unix time before which it is not fetched."""

    @property
    def values(self) -> dict[str, Any]:
        """The fields as plain types, for JSON."""
        return {
            **self._asdict(),
            "key": self.key.hex(),
            "payload": base64.b64encode(self.payload).decode(),
        }

    @classmethod
    def of(cls, values: dict[str, Any]) -> Asked:
        """Return the request with these :attr:`values`."""
        given = {
            **values,
            "key": bytes.fromhex(values["key"]),
            "payload": base64.b64decode(values["payload"], validate=True),
        }
        return cls(**given)


def _push(job: OpenJob, one: Asked) -> None:
    start, not_before = one.start, one.not_before
    job.push(one.slot, one.priority, one.payload, start=start, not_before=not_before)


# Adding requests


def _add(change: Change) -> Steps:
    """Make requests pending that the job has not seen: one step.

    If the verb has ``more`` of them, it goes on with a change that has the counts
    ``so_far``.
    """
    change["so_far"] = {name: int(n) for name, n in change.get("so_far", {}).items()}
    requests = [*map(Asked.of, change["requests"])]

    def steps(job: OpenJob, answer: Answer) -> Iterator[None]:
        answer |= {"taken_in": 0, "seen": 0, "blocked": 0}
        for one in requests:
            if job.blocks(one.slot, one.payload):
                answer["blocked"] += 1
            elif not one.dont_filter and job.seen.contains(one.key, exact=one.exact):
                answer["seen"] += 1
            else:
                _push(job, one)
                job.seen.add(one.key, exact=one.exact)
                answer["taken_in"] += 1
        yield from ()

    return steps


def _requeue(change: Change) -> Steps:
    """Make pages pending again that are done, in the last step.

    Pages that are pending or in progress are left, and so are pages that were never
    seen.
    """
    requests = [*map(Asked.of, change["requests"])]

    def steps(job: OpenJob, answer: Answer) -> Iterator[None]:
        answer |= {"taken_in": 0, "waited": 0, "unseen": 0, "blocked": 0}
        wanted: dict[bytes, Asked] = {}
        for one in requests:
            if not job.seen.contains(one.key, exact=one.exact):
                answer["unseen"] += 1
            elif job.blocks(one.slot, one.payload):
                answer["blocked"] += 1
            else:
                wanted[one.key] = one
        if wanted:
            search = Search({key: one.url for key, one in wanted.items()}, job.keys)
            for _, found in pending_that(job.store, search.may_be):
                for key in (search.key_of(one.payload) for one in found):
                    if key is not None and wanted.pop(key, None) is not None:
                        answer["waited"] += 1
                yield
        for one in wanted.values():
            _push(job, one)
        answer["taken_in"] = len(wanted)

    return steps


def _requeue_failed(change: Change) -> Steps:
    """Make failed requests pending again: one step.

    Each stays among the failed requests until it succeeds. A request that could not be
    stored is a problem in the answer.
    """

    def steps(job: OpenJob, answer: Answer) -> Iterator[None]:
        answer["taken_in"] = 0
        found = _failures_in(job.store)
        for digest, one in failed_to_repeat(change, found, job.blocks, answer):
            assert one.payload is not None  # noqa: S101 - it is repeated
            job.push(one.slot, one.priority, one.payload)
            job.failures[digest] = one._replace(waiting=True).packed()
            answer["taken_in"] += 1
        yield from ()

    return steps


def failed_to_repeat(
    change: Change,
    found: Iterable[tuple[Name, Failure]],
    blocks: Callable[[str, bytes], bool],
    answer: Answer,
) -> Iterator[tuple[Name, Failure]]:
    """Yield the failed requests that a change makes pending again.

    ``blocks`` says whether a rule keeps a stored request of a slot out. The other
    chosen requests are counted in the answer.
    """
    selection, reasons = selection_of(change), tuple(change["reasons"])
    answer |= {"waited": 0, "blocked": 0, "problems": []}
    for name, one in found:
        if not (one.is_to_retry(reasons) and selection.has(one.slot, one.url)):
            continue
        if one.waiting:
            answer["waited"] += 1
        elif one.payload is None:
            answer["problems"].append([one.url, _never_stored(one)])
        elif blocks(one.slot, one.payload):
            answer["blocked"] += 1
        else:
            yield name, one


def _never_stored(one: Failure) -> str:
    """Return why a failed request cannot be pending again, and the remedy."""
    source = one.parent or "the page that has led to it"
    return (
        "it could not be stored, or its page comes again by itself;"
        f" {source} yields it again"
    )


def _failures_in(store: Store) -> Iterator[tuple[bytes, Failure]]:
    with store.snapshot() as snapshot:
        yield from stored_failures(snapshot)


# Removing requests


def _drop(change: Change) -> Steps:
    """Remove pending requests, a portion in each step.

    If the change has ``pages``, the URL of each fingerprint, only requests for them are
    removed. Requests in progress go on, and are counted.
    """
    selection, pages = selection_of(change), pages_of(change)

    def steps(job: OpenJob, answer: Answer) -> Iterator[None]:
        answer.setdefault("dropped", 0)
        answer["in_progress"] = 0
        search = Search(pages, job.keys) if pages else None
        requeued = RequeuedFailures(_failures_in(job.store))
        for found in portions(job.store, selection.slot):
            chosen = [
                one
                for one in found
                if is_chosen(one.slot, one.payload, selection, search)
            ]
            pending = [one for one in chosen if not job.frontier.is_out(one)]
            job.frontier.remove(pending)
            for failed in (requeued.taken(one.payload) for one in pending):
                if failed is not None:
                    digest, failure = failed
                    job.failures[digest] = failure._replace(waiting=False).packed()
            answer["dropped"] += len(pending)
            answer["in_progress"] += len(chosen) - len(pending)
            yield
        answer["left"] = count_pending(job.store)

    return steps


def is_chosen(
    slot: str, payload: bytes, selection: Selection, search: Search | None
) -> bool:
    """Whether a pending request is to be removed."""
    if search is not None and search.key_of(payload) is None:
        return False
    if selection.pattern is None:
        return selection.slot in (None, slot)
    try:
        return selection.has(slot, summary_of(payload).url)
    except UnserializableError:
        return False


def pages_of(change: Change) -> dict[bytes, str]:
    """Return the URL of each fingerprint that a change names."""
    return {bytes.fromhex(key): url for key, url in change["pages"].items()}


class RequeuedFailures:
    """Failed requests that are pending again, as long as they may be removed.

    A retry has different ``meta``, so they are told apart by method and URL.
    """

    def __init__(self, failures: Iterable[tuple[bytes, Failure]]) -> None:
        self._failures: dict[tuple[str, str], list[tuple[bytes, Failure]]] = {}
        for digest, one in failures:
            if one.waiting and one.payload is not None:
                same = self._failures.setdefault(_name_of(one.payload), [])
                same.append((digest, one))

    def taken(self, payload: bytes) -> tuple[bytes, Failure] | None:
        """Take out the failed request that a pending request repeats, with its key."""
        same = self._failures.get(_name_of(payload)) if self._failures else None
        return same.pop() if same else None


def _name_of(payload: bytes) -> tuple[str, str]:
    try:
        summary = summary_of(payload)
    except UnserializableError:  # a pickle
        return "", url_of(payload)
    return summary.method, summary.url


def _block(change: Change) -> Steps:
    """Add rules that keep requests out, and remove the requests that match.

    Or delete rules (``undo``).
    """
    rules: list[dict[str, Any]] = change["rules"]
    read_rules(rules)  # before the job has them
    undo = bool(change["undo"])
    drop = _drop(change)

    def steps(job: OpenJob, answer: Answer) -> Iterator[None]:
        answer |= {"dropped": answer.get("dropped", 0), "in_progress": 0}
        answer["rules"] = job.rules = changed_rules(job.rules, rules, undo=undo)
        if undo:
            return
        yield
        yield from drop(job, answer)

    return steps


def selection_of(change: Change) -> Selection:
    """Return the requests that a change selects by slot and pattern."""
    return Selection.of(change["slot"], change["pattern"])


def _pause(change: Change) -> Steps:
    """Pause a slot, or let it go on (``undo``): one step."""
    slot, undo = str(change["slot"]), bool(change["undo"])

    def steps(job: OpenJob, answer: Answer) -> Iterator[None]:
        before = set(job.paused)
        if undo and slot not in before:
            paused = ", ".join(sorted(before)) or "none"
            raise StoreMismatchError(
                f"slot {slot!r} is not paused; paused slots: {paused}"
            )
        job.paused = before - {slot} if undo else before | {slot}
        if undo:
            job.frontier.ask_again(slot)
        answer["paused"] = job.paused
        answer["pending"] = job.frontier.pending_in(slot)
        yield from ()

    return steps


def _stop(change: Change) -> Steps:  # noqa: ARG001 - it has no fields
    """Close the running crawl: one step.

    If the crawl dies first, the next run finds the change, and refuses it.
    """

    def steps(job: OpenJob, answer: Answer) -> Iterator[None]:  # noqa: ARG001
        if job.stop is None:
            raise StoreMismatchError("no crawl runs, so there is nothing to stop")
        job.stop()
        yield from ()

    return steps


_KINDS: dict[str, Callable[[Change], Steps]] = {
    "add": _add,
    "requeue": _requeue,
    "requeue failed": _requeue_failed,
    "drop": _drop,
    "block": _block,
    "pause": _pause,
    "stop": _stop,
}
