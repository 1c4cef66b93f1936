"""A crawl on Redis, and a process that collects its output until it is ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.crawl import BLOOMDUPE
from support.forks import Child
from support.owners_model import joined
from support.placing import install_files
from support.shop import READERS
from support.stops import POINTS, Stop, stop_at

from bloomdupe import BloomFilter
from bloomdupe.feeds import journal
from bloomdupe.feeds.appended_feed import AppendedFeed
from bloomdupe.feeds.journal import Journal
from bloomdupe.moving import collecting
from bloomdupe.requests.values import pack_item
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client, lua
from bloomdupe.store.redis.crawl_reader import Counts
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Sequence

NAMES = ["site.jsonl", "deep/b.json", "c d.csv"]
"""Of the feeds, and of their files."""
IDENTITY = {
    "spider": "site",
    "fingerprinter": "a.B",
    "feeds": NAMES,
}
NAMED = [word for feed in NAMES for word in ("--feed", feed)]
"""What names them on the command line."""
LATER = ["deep/b.json"]
"""Those that are written when the crawl has ended."""
PARTITIONS = 3

FORGET = lua("forget")
"""The script with which ``collect --delete`` deletes."""

# As they are before they are watched.
_open, _pwrite, _replace, _seal = os.open, os.pwrite, os.replace, Journal.seal
_run = Client.run
_left_by = AppendedFeed.left_by


class Crawl:
    """A worker with all partitions of a crawl, and its output: the model."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.expected: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
        self._pending = 0
        self._begun = False
        self.join()

    def join(self) -> None:
        """Let the worker come."""
        self._owner = joined(Address.of(self.url), PARTITIONS)
        place = self._owner.stores[0]
        self._seen = BloomFilter.open(place, 1_000, identity=IDENTITY)
        self._joined = True

    def leave(self) -> None:
        """Let the worker leave: the crawl has ended if nothing is pending."""
        ended = self._begun and not self._pending
        self.kill(range(PARTITIONS), run="finished" if ended else "shutdown")

    def kill(self, give: Collection[int] = (), **notes: Any) -> None:
        """Let the worker end without a word, when it was done with everything."""
        self._seen.notes.update(notes)
        self._commit(give=give)
        self._owner.close()
        self._joined = False

    def _commit(
        self, lines: Sequence[Sequence[bytes]] = (), give: Collection[int] = ()
    ) -> None:
        counts = dict.fromkeys(range(PARTITIONS), Counts(0)) | {
            0: Counts(self._pending)
        }
        parts = {self._owner.stores[0]: [self._seen.prepare(), Part(output=lines)]}
        commit = self._owner.begin(parts, counts=counts, give=give)
        commit.send()
        commit.done()

    def enqueue(self, count: int, **notes: Any) -> None:
        """Let so many requests wait."""
        self._seen.notes.update(notes)
        self._pending += count
        self._commit()

    def ack(self, rng: random.Random) -> bool:
        """Acknowledge a request, or some at once, with lines; False if none waits."""
        pages = [
            [self._line(rng) for _ in range(rng.choice([0, 1, 1, 4]))]
            for _ in range(min(rng.choice([1, 1, 3]), self._pending))
        ]
        if pages:
            self._begun = True
            self._pending -= len(pages)
            self._commit([entry(*items) for items in pages if items])
        return bool(pages)

    def _line(self, rng: random.Random) -> bytes:
        feed = rng.randrange(len(NAMES))
        expected = self.expected[NAMES[feed]]
        text = rng.choice(["", "a", "\u00fc b" * 9, "x" * 300])
        row = {"line": len(expected), "text": text}
        expected.append(row)
        return packed(row, feed)

    def put_out(self, count: int, rng: random.Random) -> None:
        """Take in so many requests, and acknowledge them."""
        self.enqueue(count)
        while self.ack(rng):
            pass

    def complaints(self, *directories: Path) -> list[str]:
        """Hold the files against the model: each row once, in its order.

        A list in JSON has those of a moment at which the crawl had ended.
        """
        going_on = self._joined or self._pending
        found = []
        for name, expected in self.expected.items():
            try:
                rows = [row for place in directories for row in rows_in(place / name)]
            except ValueError:
                found.append(f"{name} has a line that is none")
                continue
            some = len(rows) if name in LATER and going_on else None
            if rows != expected[:some]:
                found.append(
                    f"{name}: {len(rows)} rows instead of {len(expected)}, or in"
                    " another order"
                )
        return found


def packed(item: object, *numbers: int) -> bytes:
    """Return an item as a worker puts it out for these feeds."""
    return journal.packed(numbers, pack_item(item))


def entry(*items: bytes) -> list[bytes]:
    """Return the fields and values of the entry of a page."""
    return [one for n, item in enumerate(items) for one in (b"%d" % n, item)]


def rows_in(place: Path) -> list[dict[str, Any]]:
    """Return the rows in a file, by its suffix; ValueError if it is damaged."""
    data = place.read_bytes() if place.exists() else b""
    rows = READERS[place.suffix[1:]](data) if data else []
    return [{**row, "line": int(row["line"])} for row in rows]


# The process


class Watch:
    """Prepares a process that collects: by small batches, and with more stop points.

    It is ended before, in or after a call that reaches the disk or deletes from Redis.
    A power cut may take what is not synced, so nothing that is needed may be unsynced
    when a record is replaced, or entries are deleted. ``without`` names what is taken
    out, for a control.
    """

    def __init__(self, without: str, stop: dict[str, Any]) -> None:
        self._without = without
        self._unsynced = set[tuple[Path, Path]]()
        """The file, and what is to be synced: it has new data, or its directory."""
        collecting.AT_ONCE = 2
        collecting.YOUNG = 0.0
        collecting.PAUSE = 0.02
        if without == "pieces":
            Journal.seal = without_pieces  # type: ignore[method-assign,assignment]
        if without == "repair":
            AppendedFeed.left_by = without_repair  # type: ignore[method-assign]
        os.open, os.pwrite = self._open, self._pwrite  # type: ignore[assignment]
        os.fsync = os.fdatasync = self._sync  # type: ignore[assignment]
        os.replace = self._replace  # type: ignore[assignment]

        def run(client: Client, *words: Any) -> Any:
            return self._run(client, *words)

        Client.run = run  # type: ignore[method-assign,assignment]
        POINTS.use(Stop(**stop))
        install_files()

    def _changed(self, place: Path, what: Path) -> None:
        if place.suffix != ".lock":
            self._unsynced.add((place, what))

    def _open(self, path: Any, flags: int, *more: Any) -> int:
        if not flags & os.O_CREAT or os.path.lexists(path):
            return _open(path, flags, *more)
        stop_at("before open")
        fd = _open(path, flags, *more)
        if place_of(fd).name[0] != ".":  # or it gets another name
            self._changed(place_of(fd), place_of(fd).parent)
        stop_at("after open")
        return fd

    def _pwrite(self, fd: int, data: Any, offset: int) -> int:
        self._changed(place_of(fd), place_of(fd))
        half = len(data) // 2
        _pwrite(fd, data[:half], offset)
        stop_at("in pwrite")
        _pwrite(fd, data[half:], offset + half)
        return len(data)

    def _sync(self, fd: int) -> None:
        """Note that it is durable; do not wait for the real disk.

        The kernel keeps the writes of a killed process.
        """
        place = place_of(fd)
        if self._without != "sync" or place.name[0] == ".":
            self._unsynced = {one for one in self._unsynced if one[1] != place}

    def _replace(self, source: Any, place: Any) -> None:
        folder = Path(place).resolve().parent
        self._unsynced.discard((folder / Path(source).name, folder))
        assert not self._unsynced, self._unsynced
        _replace(source, place)
        self._changed(Path(place), folder)

    def _run(self, client: Client, script: bytes, *words: Any) -> Any:
        if script != FORGET:
            return _run(client, script, *words)
        feeds = {Path(name).name for name in NAMES}  # what they lack is in the journal
        assert {place.name for place, _ in self._unsynced} <= feeds, self._unsynced
        stop_at("before deleting")
        answer = _run(client, script, *words)
        stop_at("after deleting")
        return answer


def place_of(fd: int) -> Path:
    """Return the path of an open file."""
    return Path(f"/proc/self/fd/{fd}").readlink()


def without_pieces(journal: Journal) -> dict[str, Any]:
    """Commit without the lines, which are only in the files: for a control."""
    sealed = _seal(journal)
    return {**sealed, "size": 0} if journal.place.stem == "lines" else sealed


def without_repair(self: AppendedFeed, old: dict[str, Any]) -> dict[str, Any]:
    """Write no lines that an earlier call has committed: for a control."""
    found = _left_by(self, old)
    return {**found, "size": found["size"] and found["base"]}


def collect(url: str, directory: Path, *options: str, **how: Any) -> int:
    """Collect in a process of its own; return its exit status, -9 if it was killed."""
    return started(url, directory, *options, **how).end()


def started(
    url: str,
    directory: Path,
    *options: str,
    without: str = "",
    **stop: Any,
) -> Child:
    """Start such a process, with its output in ``DIRECTORY.said``; see ``stops.py``."""
    return Child({
        "folder": str(directory.parent),
        "command": [str(BLOOMDUPE), "collect", url, str(directory), *NAMED, *options],
        "log": f"{directory}.said",
        "before": [("moving.collecting_child.Watch", [without, stop])],
    })  # fmt: skip
