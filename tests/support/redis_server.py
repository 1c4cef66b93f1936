"""A real redis-server of the tests' own, in a folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis
from bitarray import bitarray
from redis.backoff import NoBackoff
from redis.retry import Retry

from support.ports import kept_port
from support.shared_data import needs_program
from support.waiting import until

if TYPE_CHECKING:
    import random
    from pathlib import Path

LOGGED = ("--appendonly", "yes", "--appendfsync", "always")
"""Options of a server that may be killed, and comes back with all that it has answered.

By default Redis answers before it writes its log, while an older write is synced: a
busy disk would decide what is lost.
"""
PAUSE = 60_000
"""Milliseconds; the server is killed before."""


class RedisServer:
    """A server that listens on a socket in ``folder``; ``with`` starts and ends it.

    It listens on ``port`` of this machine, too, unless that is 0. Without ``options``
    it says that it is durable, though nothing is ever written.
    """

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        program = needs_program("redis-server")
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "s"
        self.port = port
        self._command = [
            program, *options, "--port", str(port), "--unixsocket", str(self.socket),
            "--dir", str(folder), "--save", "100000 1",
        ]  # fmt: skip
        self._log = folder / "log"
        self._appended = folder / "appendonlydir"

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until(self._answers)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        with suppress(redis.ConnectionError), self.client() as client:
            # One that asks for a password answers, too.
            with suppress(redis.AuthenticationError):
                client.ping()
            return True
        return False

    def kill(self) -> None:
        """End it at once."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.socket.unlink(missing_ok=True)

    def stall(self, seconds: float) -> None:
        """Let it answer no client for some time."""
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)  # noqa: TID251 - a fault strikes at any time
        self._process.send_signal(signal.SIGCONT)

    @property
    def written(self) -> tuple[str, int]:
        """The last file of its log of changes, and the bytes in it."""
        files = (self._appended / "appendonly.aof.manifest").read_text().splitlines()
        name = files[-1].split()[1]
        return name, (self._appended / name).stat().st_size

    def cut_back(self, name: str, size: int) -> None:
        """Let a server that was killed have written only so much of that file.

        A step that was written in part goes as a whole: Redis itself forgets to, and
        applies it at the start after the next (valkey-io/valkey#4342).
        """
        os.truncate(self._appended / name, size)
        subprocess.run(
            [
                needs_program("redis-check-aof", "redis-server"),
                *("--fix", "appendonly.aof.manifest"),
            ],
            cwd=self._appended,
            input=b"y\n",
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def go_back(self, seconds: float, rng: random.Random) -> None:
        """Work on for so long, and lose some of the writes of that time.

        Often it loses little: requests that a worker has sent then, and not
        acknowledged.
        """
        before, first = self.written
        time.sleep(seconds)  # noqa: TID251 - a fault strikes at any time
        self.kill()
        name, last = self.written
        if name == before:  # it has not begun a new file
            most = min(last - first, rng.choice([3_000, 30_000, last]))
            self.cut_back(name, last - rng.randint(0, most))
        self.start()

    def end_leases(self, job: str, *workers: str) -> int:
        """Let all leases of a job, or of some workers, end at once.

        No test waits for their time. A worker that is alive loses its partitions, too.
        Return how many partitions had such a lease.
        """
        owners, steps = f"bd:{{{job}}}:owners", f"bd:{{{job}}}:steps"
        with self.client() as client:
            found: Any = client.hgetall(owners)
            ended = [
                number
                for number, token in found.items()
                if not workers or token.decode() in workers
            ]
            if ended:
                client.hdel(owners, *ended)
            client.hdel(steps, *workers) if workers else client.delete(steps)
        return len(ended)

    def client(self, **options: Any) -> redis.Redis:
        """Return a client that knows nothing of bloomdupe: the judge."""
        once = Retry(NoBackoff(), 0)
        return redis.Redis(unix_socket_path=str(self.socket), retry=once, **options)

    def url(self, name: str) -> str:
        """Return the URL of a filter."""
        return f"unix://{self.socket}#{name}"


class Replaced:
    """A server, or the replica that has taken its place."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._count = 0
        self.server = self._new()

    def _new(self) -> RedisServer:
        self._count += 1
        folder = self._folder / f"redis{self._count}"
        at_once = ("--repl-diskless-sync-delay", "0")
        return RedisServer(folder, *self._options, *at_once, port=kept_port())

    def promote(self, seconds: float = 0) -> None:
        """Let a replica follow for so long or more, and replace a master: it is killed.

        It has all writes that the master has answered: the last answers were held back
        until it had them. (A replica that lacks some goes back: another fault.)
        """
        replica = self._new()
        replica.start()
        with replica.client() as client, self.server.client() as master:
            client.replicaof("127.0.0.1", self.server.port)
            until(lambda: _replication(client)["master_link_status"] == "up")
            time.sleep(seconds)  # noqa: TID251 - a fault strikes at any time
            master.execute_command("CLIENT", "PAUSE", PAUSE, "WRITE")
            end = _replication(master)["master_repl_offset"]
            until(lambda: _replication(client)["slave_repl_offset"] >= end)
            self.server.kill()
            client.replicaof("no", "one")
        self.server = replica


def _replication(client: Any) -> dict[str, Any]:
    facts: dict[str, Any] = client.info("replication")
    return facts


def blocks(client: redis.Redis, head: str) -> dict[tuple[int, int], bytes]:
    """Return the blocks of a filter by layer and number, with the first bit first."""
    found = {}
    for key in client.scan_iter(f"{head}:*:*:*"):
        layer, number = key.split(b":")[-2:]
        value = client.get(key)
        assert isinstance(value, bytes)
        bits = bitarray(buffer=value, endian="big")
        found[int(layer), int(number)] = bitarray(bits, endian="little").tobytes()
    return found
