"""The outputs of requests in progress that are stored already: children and items.

Children are committed while their parent is in progress, so after a crash the parent
yields them again. Ordinary children are dropped, because they are marked as seen.
Children with ``dont_filter`` are remembered here until the parent is settled: stored
ones when they are accepted, and those in memory, by their names, when they count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import count
from struct import Struct
from typing import TYPE_CHECKING

from mmh3 import mmh3_x64_128_digest

from bloomdupe.crawl.leases.outcomes import ANY
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.outcomes import Answers


PREFIX = "c"
"""Of the names of values in the database ``blobs`` that are children's."""
DIGEST_BYTES = 16
CHUNK = 4096
"""Greatest number of children in a value, which is also the number that a checkpoint
rewrites for each parent.
"""

_HEAD = Struct("<HI")
"""Length of the parent's key, number of the chunk; key and digests follow."""


class _Family:
    """The children of a request, and of the requests that continue its work."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.digests: list[bytes] = []
        self.expected: Counter[bytes] = Counter()
        """Those stored by an earlier run that this run has not yielded again."""
        self.names: list[str] = []
        """Names of the values that hold them, ``CHUNK`` in each."""
        self.stored = 0
        self.gone = False
        """Whether no request will yield them again."""


class Children(Participant):
    """Remembers children with ``dont_filter`` by digests of their identities.

    For these see :mod:`bloomdupe.crawl.requests.identity`. Only of requests that have
    a name after a crash; any other is not known then, and neither are its children.
    Requests of one name share their children.
    """

    def __init__(self) -> None:
        self.families: dict[bytes, _Family] = {}
        """By the name of the request."""
        self._fresh: dict[_Family, None] = {}
        self._gone: list[str] = []
        self._numbers = count()

    def restore(self, blobs: Mapping[str, bytes]) -> None:
        """Restore the children of the last checkpoint."""
        chunks: defaultdict[bytes, dict[int, tuple[str, bytes]]] = defaultdict(dict)
        for name, value in blobs.items():
            size, number = _HEAD.unpack_from(value)
            end = _HEAD.size + size
            chunks[value[_HEAD.size : end]][number] = (name, value[end:])
        for key, found in chunks.items():
            family = self.families[key] = _Family(key)
            for _, (name, digests) in sorted(found.items()):
                family.names.append(name)
                family.digests += [
                    digests[at : at + DIGEST_BYTES]
                    for at in range(0, len(digests), DIGEST_BYTES)
                ]
            family.stored = len(family.digests)
            family.expected.update(family.digests)
        taken = [int(name[len(PREFIX) :], 16) for name in blobs]
        self._numbers = count(max(taken, default=-1) + 1)

    def recognises(self, lease: Lease, identity: bytes) -> bool:
        """Whether an earlier run stored the child; true once for each time it did."""
        family = self.families.get(lease.name)
        if family is None:
            return False
        digest = mmh3_x64_128_digest(identity)
        if not family.expected[digest]:
            return False
        family.expected[digest] -= 1
        if not family.expected[digest]:
            del family.expected[digest]
        return True

    @property
    def owed(self) -> bool:
        """Whether this run has yet to yield children that an earlier run stored.

        They may be children of a request in memory. It is not known which page will
        yield that request again, but that page must have the same name as before.
        """
        return any(family.expected for family in self.families.values())

    def add(self, lease: Lease, identity: bytes) -> None:
        """Remember an accepted child."""
        key = lease.name
        family = self.families.get(key)
        if family is None:
            family = self.families[key] = _Family(key)
        family.digests.append(mmh3_x64_128_digest(identity))
        self._fresh[family] = None

    def forget(self, name: bytes, *, passed_on: bool = False) -> None:
        """Forget the children of a settled request: it yields nothing again.

        If its name is ``passed_on``, the request in its place keeps the rest.
        """
        family = self.families.pop(name, None)
        if family is None:
            return
        self._gone += family.names
        family.gone = True
        self._fresh.pop(family, None)
        if passed_on and family.expected:
            heirs = self.families[name] = _Family(name)
            heirs.digests += family.expected.elements()
            heirs.expected = family.expected
            self._fresh[heirs] = None

    def end(self) -> None:
        """Forget all children: no request is left that could yield them again."""
        for family in self.families.values():
            self._gone += family.names
        self.families.clear()
        self._fresh.clear()

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        blobs = {}
        stored = []
        for family in self._fresh:
            digests, names = family.digests, family.names
            first = family.stored // CHUNK
            added = []
            for number in range(first, (len(digests) - 1) // CHUNK + 1):
                if number < len(names):
                    name = names[number]
                else:
                    name = f"{PREFIX}{next(self._numbers):x}"
                    added.append(name)
                part = digests[number * CHUNK : (number + 1) * CHUNK]
                head = _HEAD.pack(len(family.key), number) + family.key
                blobs[name] = head + b"".join(part)
            stored.append((family, len(digests), added))
        gone = tuple(self._gone)

        def done() -> None:
            del self._gone[: len(gone)]
            for family, size, added in stored:
                family.stored = size
                family.names += added
                if family.gone:  # settled meanwhile
                    self._gone += added
                elif len(family.digests) == size:
                    self._fresh.pop(family, None)

        return Part(blobs=blobs, gone=gone, done=done)

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._fresh or self._gone)


class CutShort(Participant):
    """Numbers of items by request and by answer, of callbacks that were cut short.

    ``CloseSpider`` has ended such a callback. It has not yielded everything, so its
    request stays pending for the next run. The items that it has yielded still count:
    they are in the output. When the same answer comes again, the callback yields them
    again, and that many of its first items are left out. A different answer (a page
    instead of an error, or of a captcha) yields different items.

    The store keeps them as ``cut_short`` in the record ``crawl``, by the key of the
    request in hexadecimal, and by the answer. Earlier versions have stored a number in
    the place of the answers.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answers] = {}
        self._changed = False

    def restore(self, stored: dict[str, Answers | int]) -> None:
        """Restore the numbers of the last checkpoint."""
        self.answers = {
            key: {ANY: found} if isinstance(found, int) else dict(found)
            for key, found in stored.items()
        }

    def answers_of(self, lease: Lease) -> Answers:
        """Return how many items of each answer to a request are in the output."""
        return self.answers.get(lease.name.hex(), {})

    def note(self, lease: Lease, answers: Answers) -> None:
        """Remember how many items of each answer are in the output."""
        self.answers[lease.name.hex()] = answers
        self._changed = True

    def forget(self, name: bytes, passed_on: Lease | None = None) -> None:
        """Forget a settled request.

        If it has ``passed_on`` its name, its heir leaves out the items that are left.
        """
        if self.answers.pop(name.hex(), None) is not None:
            self._changed = True
            if passed_on is not None and (left := passed_on.items_left):
                self.answers[name.hex()] = left

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self._changed

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        answers = dict(self.answers)

        def done() -> None:
            self._changed = self.answers != answers

        return Part(entries={"cut_short": answers} if answers else {}, done=done)
