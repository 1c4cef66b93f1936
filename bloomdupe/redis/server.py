"""Server: a Redis that keeps a filter, and the scripts that change it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator
from copy import copy
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from bloomdupe.errors import (
    StoreAccessError,
    StoreMismatchError,
)
from bloomdupe.redis.connection import Connection, NoScriptError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import redis

    from bloomdupe.store.redis.address import Address

__all__ = ["AT_ONCE", "FIELDS", "Call", "Server", "Talk"]

SCRIPTS = {
    "create": ("create",),
    "add": ("layers", "mark", "add"),
    "contains": ("layers", "contains"),
    "claim": ("layers", "mark", "claim"),
    "grow": ("grow",),
    "clear": ("clear",),
    "present": ("workers", "present"),
    "running": ("workers", "running"),
    "stop": ("workers", "stop"),
    "keep_news": ("keep_news",),
    "news": ("news",),
    "block": ("block",),
    "look": ("look",),
    "history": ("history",),
    "remove": ("workers", "remove"),
    "offer": ("layers", "mark", "queue", "offer"),
    "left_over": ("left_over",),
    "take": ("queue", "take"),
    "renew": ("queue", "renew"),
    "lease": ("queue", "owner", "lease"),
    "settle": ("queue", "owner", "about", "failed", "settle"),
    "output": ("queue", "output"),
    "forget": ("queue", "forget"),
    "state": ("queue", "state"),
    "hosts": ("queue", "hosts"),
    "states": ("queue", "states"),
    "pending_of": ("queue", "pending_of"),
    "handed_out": ("queue", "handed_out"),
    "later": ("queue", "later"),
    "failures": ("queue", "failures"),
    "trim": ("queue", "failed", "trim"),
    "requeue": ("queue", "failed", "requeue"),
    "drop": ("queue", "failed", "drop"),
}
"""The files that each script consists of."""

REFUSED_AT = re.compile(r"script: ([0-9a-f]{40}), on @user_script:(\d+)")
"""The script, and its line, of a command to which a user has no right."""

AT_ONCE = 500
"""Requests, or the like, per script, which blocks Redis for some milliseconds."""
FIELDS = ""
"""In the place of a script's name: the fields of the head are asked for."""


class Script(NamedTuple):
    """A script, and the name that Redis gives to it."""

    text: str
    sha: str

    @classmethod
    def of(cls, parts: Sequence[str]) -> Script:
        """Read the files that a script consists of."""
        text = "\n".join(map(_source, parts))
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class Call(NamedTuple):
    """A script to run on the filter at a server's address."""

    server: Server
    script: str
    """Its name, or :data:`FIELDS`."""
    arguments: tuple[bytes | str | float, ...] = ()


Result = TypeVar("Result")
Talk = Generator[Call, Any, Result]
"""Yields one call after another, and is sent the answer to each."""


class Server(Connection):
    """A Redis server, or the node of a Redis Cluster, that keeps a filter or a crawl.

    Calls are sent together, in one round trip. Each script happens wholly or not at
    all, but perhaps not all of them happen: the caller gets an error, and asks again.

    No command is sent twice by itself. If the answer to a batch is lost, its keys may
    have been added or not, and in a batch that is added again all of them would count
    as seen. So redis-py's own retries are off, and the caller gets the error.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        if self._cluster is not None:
            with self.in_our_words():
                self.facts = self._client.info()
        self._check_eviction()
        self._scripts = {name: Script.of(parts) for name, parts in SCRIPTS.items()}

    @property
    def _client(self) -> redis.Redis:
        return self._client_of(self.address.head)

    def _check_eviction(self) -> None:
        """Refuse a server that evicts keys, because seen keys would be forgotten."""
        policy = str(self.facts.get("maxmemory_policy", "noeviction"))
        if policy.startswith("allkeys-"):
            raise StoreMismatchError(
                f"{self.address.shown}: this Redis throws away keys when its memory is"
                f" full (maxmemory-policy {policy}), and with them URLs that were seen;"
                " set it to noeviction (redis-cli CONFIG SET maxmemory-policy"
                " noeviction, and in redis.conf), or use another Redis",
                "maxmemory-policy",
            )

    @property
    def memory(self) -> int:
        """Bytes that the data may take: the limit, or else the machine's memory."""
        limit = int(self.facts.get("maxmemory", 0))
        return limit or int(self.facts.get("total_system_memory", 0))

    def memory_used(self) -> tuple[int, int]:
        """Return the bytes that all data takes, and the limit; 0 means no limit."""
        with self.in_our_words():
            found: dict[str, Any] = self._client.info("memory")
        return int(found["used_memory"]), int(found.get("maxmemory", 0))

    def at_once(self, talks: Iterable[Talk[Result]]) -> list[Result]:
        """Carry out talks; the next calls of all of them share a round trip.

        Their calls are for this server, under any name.
        """
        talks = list(talks)
        results: dict[int, Result] = {}
        answers: dict[int, Any] = dict.fromkeys(range(len(talks)))
        while answers:
            calls = {}
            for place, answer in answers.items():
                try:
                    calls[place] = talks[place].send(answer)
                except StopIteration as end:
                    results[place] = end.value
            answers = dict(zip(calls, self.ask(list(calls.values())), strict=True))
        return [results[place] for place in range(len(talks))]

    def carry_out(self, talk: Talk[Result]) -> Result:
        """Carry out a talk by itself."""
        (result,) = self.at_once([talk])
        return result

    def ask(self, calls: Sequence[Call]) -> list[Any]:
        """Return the answers to calls, which are sent together.

        Raises the error of the first call that Redis has refused.
        """
        with self.in_our_words():
            answers = self._answers(calls)
            unknown = [
                place
                for place, answer in enumerate(answers)
                if isinstance(answer, NoScriptError)
            ]
            for script in {calls[place].script for place in unknown}:
                self._client.script_load(self._scripts[script].text)
            again = self._answers([calls[place] for place in unknown])
        for place, answer in zip(unknown, again, strict=True):
            answers[place] = answer
        for call, answer in zip(calls, answers, strict=True):
            if isinstance(answer, Exception):
                with call.server.in_our_words():
                    raise answer
        return answers

    def _answers(self, calls: Sequence[Call]) -> list[Any]:
        """Send calls, once each; return the answers, or the errors of the server."""
        if not calls:
            return []
        pipeline: Any = self._client.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(*self._words(call))
        answers: list[Any] = pipeline.execute(raise_on_error=False)
        return answers

    def _words(self, call: Call) -> list[Any]:
        head = call.server.address.head
        if call.script == FIELDS:
            return ["HGETALL", head]
        sha = self._scripts[call.script].sha
        return ["EVALSHA", sha, 1, head, *call.arguments]

    def run(self, script: str, *arguments: bytes | str | float) -> Any:  # noqa: ANN401
        """Run a script on the filter, and return its answer."""
        (answer,) = self.ask([Call(self, script, arguments)])
        return answer

    def fields(self) -> dict[bytes, bytes]:
        """Return the fields of the filter's head; empty if the head does not exist."""
        return cast("dict[bytes, bytes]", self.run(FIELDS))

    def values(self, names: Sequence[str]) -> list[bytes | None]:
        """Return the values of keys; None for a missing key."""
        with self.in_our_words():
            return cast("list[bytes | None]", self._client.mget(names))

    def at(self, address: Address) -> Server:
        """Return the same server with another name; close the original only."""
        other = copy(self)
        other.address = address
        return other

    def reach(self) -> None:
        """Wait for an answer."""
        with self.in_our_words():
            self._client.ping()

    def set_field(self, name: str, value: str) -> None:
        """Set a field of the head."""
        with self.in_our_words():
            self._client.hset(self.address.head, name, value)

    def keys(self, pattern: str, at_once: int) -> Iterator[bytes]:
        """Yield the names of all keys that match a pattern, some perhaps twice.

        Redis looks at so many keys ``at_once``.
        """
        with self.in_our_words():
            yield from self._client.scan_iter(match=pattern, count=at_once)

    def remove(self, keys: Sequence[bytes]) -> int:
        """Remove keys, and return how many were there."""
        with self.in_our_words():
            return self._client.unlink(*keys)

    def _access(self, text: str) -> StoreAccessError:
        """Name the command: Redis 7.0 names only the line of a script."""
        if place := REFUSED_AT.search(text):
            commands = self._commands_at(place[1], int(place[2]))
            text = f"it may not use {' or '.join(commands)} in a script"
        return super()._access(text)

    def _commands_at(self, sha: str, number: int) -> list[str]:
        """Return the commands in a line of a script."""
        (script,) = (one for one in self._scripts.values() if one.sha == sha)
        line = script.text.splitlines()[number - 1]
        return re.findall(r"redis\.call\('(\w+)'", line)

    def _wrong_type(self) -> StoreMismatchError:
        return StoreMismatchError(
            f"{self.address.shown}: the key {self.address.head} holds something else"
            " than a filter of bloomdupe; take another name for the filter"
        )


def _source(name: str) -> str:
    return (files("bloomdupe.redis") / f"{name}.lua").read_text(encoding="utf-8")
