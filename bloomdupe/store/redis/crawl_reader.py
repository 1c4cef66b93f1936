"""CrawlOnRedis: a crawl, as any process may look at it; and what a worker concludes."""

from __future__ import annotations

import math
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.errors import StoreDamagedError, StoreError
from bloomdupe.store.format import COOKIES, MAGIC, TABLES, expect_format
from bloomdupe.store.redis.client import lua

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bloomdupe.store.redis.client import Client


class CrawlKeys:
    """The keys of the crawl with this name."""

    def __init__(self, name: str) -> None:
        self._tag = b"bd:{%b}:" % name.encode()
        self.head = self._tag + b"head"
        self.owners = self._tag + b"owners"
        self.steps = self._tag + b"steps"
        self.heartbeats = self._tag + b"heartbeats"
        self.counts = self._tag + b"counts"
        self.rules = self._tag + b"rules"
        self.output = self._tag + b"output"
        self.unused = self._tag + b"unused"

    @property
    def fence(self) -> tuple[bytes, bytes, bytes]:
        """The keys that tell whether a worker may commit."""
        return self.head, self.owners, self.steps

    def every(self, partitions: int) -> Iterator[bytes]:
        """Yield all keys that the crawl may have."""
        yield from (key for key in vars(self).values() if key is not self._tag)
        for number in range(partitions):
            yield from (self.table(number, one) for one in (*TABLES, b"inbox"))

    def table(self, partition: int, table: bytes) -> bytes:
        """Return the key of a partition's table."""
        if table == COOKIES:
            return self._tag + COOKIES
        return b"%b%d:%b" % (self._tag, partition, table)

    def inbox(self, partition: int) -> bytes:
        """Return the key of a partition's inbox."""
        return self.table(partition, b"inbox")


SAMPLE = lua("sample")


class Counts(NamedTuple):
    """The requests of a partition that are not done."""

    work: int
    """Pending or in flight."""
    left: int = 0
    """In flight for a worker that cannot end them."""
    delayed: int = 0
    """Delayed requests."""
    due: float = 0.0
    """Unix time at which the first of these is due."""

    @property
    def packed(self) -> bytes:
        """As it is on Redis."""
        due = self.due * 1000 if self.delayed else 0
        return b"%d %d %d %d" % (self.work, self.left, self.delayed, due)

    @classmethod
    def read(cls, packed: str) -> Counts:
        """Read the bytes of :attr:`packed`."""
        work, left, delayed, due = map(int, packed.split())
        return cls(work, left, delayed, due / 1000)


class Sample(NamedTuple):
    """One moment of a crawl."""

    owners: dict[int, str]
    """Token of the owner, by partition; partitions without one are missing."""
    steps: dict[str, int]
    """Number of the last commit, by token."""
    heartbeats: dict[str, int]
    """Heartbeats while nothing was committed, by token."""
    counts: dict[int, Counts]
    """By partition; missing before its first commit."""
    inboxes: list[int]
    """Entries in the inbox of each partition."""
    rules: bytes | None
    """The rules of the user, as JSON; None: there are none."""

    cookies: int = 0
    """Commits that have changed cookies."""
    written: int = 0
    """Unix time of the last commit, by the clock of Redis; 0: there was none."""
    alive: int = 0
    """The same of the last heartbeat."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do; a request in flight still counts."""
        all_counted = len(self.counts) == len(self.inboxes)
        left = any(any(one[:3]) for one in self.counts.values())
        return all_counted and not left and not any(self.inboxes)


class CrawlOnRedis:
    """A crawl on Redis, as any process may look at it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.keys = CrawlKeys(client.address.name)

    @property
    def partitions(self) -> int:
        """Number of partitions; 0 if there is no crawl of this name."""
        return int(self.read_head().get("partitions", 0))

    def read_head(self) -> dict[str, str]:
        """Return the fields of the head; empty if there is no crawl."""
        return self.checked(pairs(self.client.ask("HGETALL", self.keys.head)))

    def checked(self, head: dict[str, str]) -> dict[str, str]:
        """Return the fields of a head, unless they are refused."""
        if not head:
            return head
        if head.get("magic") != MAGIC:
            raise self.client.foreign()
        expect_format(self.client.address.shown, head)
        if head["begun"] != head["ended"]:
            raise self.torn()
        return head

    def torn(self) -> StoreError:
        """Return the error for a commit that Redis has restored in part."""
        return StoreDamagedError(
            f"{self.client.address.shown}: Redis has restored a part of a commit, from"
            " a log that was cut; stop it, run redis-check-aof --fix, and start it"
            " again, or restore the last backup"
        )

    def gone(self) -> StoreError:
        """Return the error for a crawl that is not there any more."""
        return StoreError(
            f"{self.client.address.shown}: the crawl is gone: it was removed, or Redis"
            " was started without its data; restore them"
        )

    def moment(self) -> int:
        """Return the number of commits of all workers."""
        return int(self.client.ask("HGET", self.keys.head, "ended") or 0)

    def sample(self, partitions: int) -> Sample:
        """Return the status of the crawl, all of it at one moment."""
        inboxes = [self.keys.inbox(number) for number in range(partitions)]
        keys = self.keys
        head, owners, steps, heartbeats, counts, rules, lengths = self.client.run(
            SAMPLE, (*keys.fence, keys.heartbeats, keys.counts, keys.rules), *inboxes
        )
        fields = self.checked(pairs(head))
        if not fields:
            raise self.gone()
        return Sample(
            {int(one): token for one, token in pairs(owners).items()},
            {token: int(step) for token, step in pairs(steps).items()},
            {token: int(count) for token, count in pairs(heartbeats).items()},
            {int(one): Counts.read(words) for one, words in pairs(counts).items()},
            lengths,
            rules,
            *(int(fields.get(one, 0)) for one in ("cookies", "at", "alive")),
        )


NOBODY = ""
"""Stands for the owner of a partition without one."""
SAMPLES = 4
"""Samples at which a dead worker was seen unchanged, at least."""


class Claims:
    """Which partitions a worker may take or should give back, by its own clock.

    An owner commits every second, even if it has nothing to write, or shows by a
    heartbeat that it is blocked. It is dead when this worker has seen its step and its
    heartbeats unchanged for the time of the ``lease``, at several samples. No clock of
    another machine counts, and little of the time in which Redis was away or this
    worker was stopped. Who takes a partition of a worker that is alive does no harm:
    its next commit is refused.
    """

    def __init__(self, lease: float, clock: Callable[[], float] = monotonic) -> None:
        self._lease = lease
        self._clock = clock
        self._last = clock()
        self._signs: dict[str, tuple[int, int]] = {}
        """Of each worker at the last sample: step and heartbeats."""
        self._silent: dict[str, float] = {}
        """Seconds for which these were seen unchanged."""

    def see(self, sample: Sample) -> None:
        """Count a sample."""
        now = self._clock()
        between = min(now - self._last, self._lease / SAMPLES)
        self._last = now
        # One that has a partition and no step was forgotten.
        steps = dict.fromkeys(sample.owners.values(), -1) | sample.steps
        signs = {
            one: (step, sample.heartbeats.get(one, 0)) for one, step in steps.items()
        }
        self._silent = {
            one: self._silent.get(one, 0.0) + between
            for one, sign in signs.items()
            if self._signs.get(one) == sign
        }
        self._signs = signs

    def is_dead(self, token: str) -> bool:
        """Whether a worker has sent no heartbeat for the time of the lease."""
        return self._silent.get(token, 0.0) >= self._lease

    def idle(self, sample: Sample, me: str) -> list[str]:
        """Return the workers that are dead and have no partition."""
        gone = sample.steps.keys() - sample.owners.values() - {me}
        return [token for token in gone if self.is_dead(token)]

    def to_take(self, sample: Sample, me: str) -> dict[int, str]:
        """Return the partitions to take now, with the owners that were seen."""
        free = {
            number: owner
            for number in range(len(sample.inboxes))
            if (owner := sample.owners.get(number, NOBODY)) == NOBODY
            or (owner != me and self.is_dead(owner))
        }
        owned = self._owned(sample, me)
        if owned[me] > min(owned.values()):
            return {}  # one who has fewer comes first
        most = math.ceil(len(sample.inboxes) / len(owned)) - owned[me]
        return dict(list(free.items())[: max(0, most)])

    def has_too_many(self, sample: Sample, me: str) -> bool:
        """Whether this worker should give a partition to a worker with fewer."""
        owned = self._owned(sample, me)
        richest = max(owned, key=lambda token: (owned[token], token))
        return richest == me and owned[me] - min(owned.values()) > 1

    def _owned(self, sample: Sample, me: str) -> Counter[str]:
        """Count the partitions of each worker that is alive."""
        alive = {me} | {token for token in sample.steps if not self.is_dead(token)}
        owned = Counter(dict.fromkeys(alive, 0))
        owned.update(token for token in sample.owners.values() if token in alive)
        return owned


def pairs(answer: object) -> dict[str, str]:
    """Return fields and values of a hash, as a command or a script has answered."""
    if isinstance(answer, dict):
        items = list(answer.items())
    else:
        assert isinstance(answer, list)  # noqa: S101 - of a script
        items = list(zip(answer[::2], answer[1::2], strict=True))
    return {field.decode(): value.decode() for field, value in items}
