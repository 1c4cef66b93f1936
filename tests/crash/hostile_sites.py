"""F16: sites that mean harm, and records that an attacker may plant in a store."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from child import in_child
from spiders.follow import Follow
from support.crawl import Crawl
from support.jobs import Harm
from support.site import Answer, Pages, Site, Visit, links
from trial import OK, Fault, Outcome, crashed, lost, silently_wrong

from bloomdupe import BloomFilter
from bloomdupe.filter import hashing
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.slot_state import SlotState
from bloomdupe.store.format import BLOBS, SLOTS, StoredSlot
from bloomdupe.store.store import Part

BUDGET = 30
FORGED = "2026-01-01 00:00:00 [bloomdupe.crawl.scheduler] CRITICAL: forged"
AFTER = links("/after")
"""A link that must be followed in spite of all."""


class HostileSites(Fault):
    """Real crawls of traps and of crafted links; crafted keys, planted pickles."""

    number = "F16"
    name = "hostile sites, planted pickles"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return [_played(script, folder) for script in SCRIPTS]

    def control(self, folder: Path) -> list[Outcome]:
        """Known keys, and a pickle that is loaded: both must be seen to do harm."""
        harmed = [
            _played(crafted_keys, folder / "keys", secret=bytes(16)),
            _played(planted_request, folder / "pickles", loaded=True),
        ]
        return [OK] if OK in harmed else harmed


def _played(script: Callable[..., Outcome], folder: Path, **options: Any) -> Outcome:
    place = folder / script.__name__
    place.mkdir(parents=True)
    return in_child(lambda: script(place, **options)).at(script.__name__)


@contextmanager
def _opened(folder: Path, pages: Pages) -> Iterator[Crawl]:
    with Site(pages) as site, Crawl(folder, site) as crawl:
        yield crawl


def _all_fetched(crawl: Crawl, *paths: str) -> Outcome:
    missing = set(paths) - set(crawl.site.requested)
    return lost(f"never asked for {sorted(missing)}") if missing else OK


def spider_trap(folder: Path) -> Outcome:
    """A trap without end, with a page budget, killed in the middle."""

    def trap(visit: Visit) -> Answer:
        name, number = visit.path.rsplit("/", 1)
        if name != "/trap":
            return Answer("" if number else AFTER + links("/trap/1"))
        return Answer(links(*(f"/trap/{10 * int(number) + i}" for i in range(10))))

    with _opened(folder, trap) as crawl:
        crawl.settings["BLOOMDUPE_MAX_PAGES_PER_SLOT"] = BUDGET
        crawl.site.hold_after(BUDGET // 2)
        process = crawl.start(Follow)
        # What no checkpoint has counted when it is killed is counted anew.
        process.until(lambda: _pages_counted(crawl) == BUDGET)
        process.kill()
        crawl.site.release()
        runs = [crawl.run(Follow), crawl.run(Follow)]
    pages = {path for path in crawl.site.requested if "/trap/" in path}
    if not 5 < len(pages) <= BUDGET:
        return silently_wrong(f"{len(pages)} pages, the budget is {BUDGET}")
    if not any(run.stats.get("bloomdupe/dropped_page_limit") for run in runs):
        return silently_wrong("it bit, and the stats do not say so")
    return _all_fetched(crawl, "/after")


def _pages_counted(crawl: Crawl) -> int:
    """Return the pages of all slots, as the last checkpoint has counted them."""
    snapshots = crawl.engine.snapshots(crawl.folder)
    records = (value for one in snapshots for _, value in one.records(SLOTS))
    states = [StoredSlot.read(0, value).state for value in records]
    return sum(SlotState.read(state).pages for state in states if state)


def long_urls(folder: Path) -> Outcome:
    """URLs of megabytes, with Scrapy's own limit off."""
    url = "/long" * 2_000_000  # 10 MB
    with _opened(folder, {"/": links(url, f"/?{url}") + AFTER, "/after": ""}) as crawl:
        crawl.run(Follow, URLLENGTH_LIMIT=0, LOG_LEVEL="INFO")
    return _all_fetched(crawl, "/after")


def redirect_loops(folder: Path) -> Outcome:
    """Redirects in a circle, and without end."""

    def endless(visit: Visit) -> Answer:
        number = visit.path.removeprefix("/endless/")
        if number.isdigit():
            return Answer("", 302, {"Location": f"/endless/{int(number) + 1}"})
        if target := {"/a": "/b", "/b": "/a", "/self": "/self"}.get(visit.path):
            return Answer("", 302, {"Location": target})
        return Answer(AFTER + links("/a", "/endless/0", "/self"))

    with _opened(folder, endless) as crawl:
        run = crawl.run(Follow)
    if len(run.requested) > 100:
        return silently_wrong(f"{len(run.requested)} requests")
    if run.stats["bloomdupe/pending"] or run.stats["bloomdupe/unfinished"]:
        return lost("something is left over at the end")
    return _all_fetched(crawl, "/after", "/a", "/b", "/self", "/endless/0")


def control_characters(folder: Path) -> Outcome:
    """Line breaks, escape sequences and the like in links: a record stays a line."""
    nasty = [f"x\n{FORGED}", f"x\r{FORGED}", "\x1b[2J\x07", "\x00", "\u2028" + FORGED]
    nasty += [f"%0A{FORGED}", "&#10;" + FORGED, "&#8232;" + FORGED, "\u202e", "\ufffe"]
    page = AFTER
    page += "".join(f"<a href='/p{i}/{text}'>x</a>" for i, text in enumerate(nasty))
    page += "".join(f"<a href='/q?{text}'>x</a>" for text in nasty)
    loud: Any = {
        **dict.fromkeys(("DUPEFILTER_DEBUG", "SCHEDULER_DEBUG"), True),
        "BLOOMDUPE_MAX_PENDING_PER_SLOT": 15,
    }
    with _opened(folder, {"/": page, "/after": page}) as crawl:
        run = crawl.run(Follow, **loud)
    # As a pager or a log reader would split it.
    for line in run.log.splitlines():
        if line.startswith(FORGED[:20]):
            return silently_wrong(f"forged: {line}")
        if "\x1b" in line or "\x07" in line or "\x00" in line:
            return silently_wrong(f"a control character: {line!r}")
    return _all_fetched(crawl, "/after")


def crafted_keys(folder: Path, secret: bytes | None = None) -> Outcome:
    """Keys that set the bits of three other keys; they need the hash's key."""
    wanted = [f"https://shop.example/{n}".encode() for n in range(3)]
    with BloomFilter.open(folder / "store", 2000, 1e-2, key=secret) as seen:
        (layer,) = seen.info().layers
        hashes = layer["hashes"]

        def bits(key: bytes) -> list[int]:
            return hashing.positions(hashing.digest(bytes(16) + key), hashes)

        found: dict[int, bytes] = {}
        for number in range(100_000):
            key = b"https://evil.example/%d" % number
            for bit in bits(key):
                found.setdefault(bit, key)
        crafted = {found[bit] for key in wanted for bit in bits(key)}
        seen.update(crafted)
        hidden = [key for key in wanted if key in seen]
    return lost(f"{len(crafted)} keys hide {hidden}") if hidden else OK


@contextmanager
def _begun(folder: Path) -> Iterator[tuple[Crawl, Frontier, bytes]]:
    """Yield a crawl that has begun, its frontier, and a pickle to be planted there."""
    with _opened(folder, {"/": AFTER, "/after": ""}) as crawl:
        crawl.run(Follow, CLOSESPIDER_PAGECOUNT=1, CONCURRENT_REQUESTS=1)
        with BloomFilter.open(crawl.store) as seen:
            yield crawl, Frontier(seen), b"P" + pickle.dumps(Harm(folder / "mark"))


def planted_request(folder: Path, *, loaded: bool = False) -> Outcome:
    """A pickle in the place of a request."""
    with _begun(folder) as (crawl, frontier, evil):
        frontier.push("127.0.0.1", 0, evil)
        frontier.checkpoint()
        frontier.seen.close()
        if loaded:
            pickle.loads(evil[1:])  # noqa: S301 - to see its harm
        run = crawl.run(Follow, status=1)
    if (folder / "mark").exists():
        return crashed("the planted code has run")
    if (
        "bloomdupe has not stored these bytes" not in run.log
        or "it cannot be restored: " not in run.log
        or run.stats["bloomdupe/unrestorable"] != 1
    ):
        return silently_wrong("nobody speaks of the pickle")
    return _all_fetched(crawl, "/after")


def planted_state(folder: Path) -> Outcome:
    """A pickle in the place of the spider's state."""
    with _begun(folder) as (crawl, frontier, evil):
        assert frontier.store is not None
        frontier.store.commit(Part(changes={BLOBS: {b"state": evil}}))
        frontier.seen.close()
        run = crawl.refused(Follow)
    if (folder / "mark").exists():
        return crashed("the planted code has run")
    if "the stored spider.state cannot be read" not in run.log:
        return silently_wrong(f"nobody speaks of it: {run.log}")
    return OK


SCRIPTS = (
    spider_trap,
    long_urls,
    redirect_loops,
    control_characters,
    crafted_keys,
    planted_request,
    planted_state,
)
