"""Protections taken out, for the controls: a judge must see that they are missing.

The process that crawls calls such a function first: see ``before`` of
:class:`support.crawl.Crawl`.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.ending import Stopping
from bloomdupe.crawl.engines import crawl_engine
from bloomdupe.crawl.starting import Starting, StartVerdict
from bloomdupe.feeds.delivery import Target
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.inside_scrapy.cookie_jars import CookieJars
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Iterable


FEW = 64
"""Files: the items of an idiom are one in two feeds, so there are more."""
FENCE = ("~= token then return 'not the owner'",)
STEP = ("if last == step then return 'again' end", "'not the next step'")
INBOX = ("'another inbox'",)
"""What the script of a commit on Redis checks: the fence, the step, what was in the
inboxes."""


def consuming_while_preparing() -> None:
    """Let feeds forget their lines before the checkpoint of these is durable."""
    prepare = FeedExporter.prepare

    def wrong(self: FeedExporter, lines: Iterable[tuple[int, bytes]]) -> Part:
        part = prepare(self, lines)
        part.done()
        part.done = lambda: None
        self.append()
        return part

    FeedExporter.prepare = wrong  # type: ignore[method-assign]


def stopping_on_failure() -> None:
    """Take a failed checkpoint for a good one, and go on."""
    Stopping.fail = lambda *_: None  # type: ignore[method-assign]


def remembering_starts() -> None:
    """Schedule start requests whenever ``start()`` yields them."""
    Starting.judge = lambda *_, **__: StartVerdict(  # type: ignore[method-assign]
        skip=False, forced=True
    )


def waiting_for_pages() -> None:
    """Let each request be durable at once, though its page is not acknowledged."""
    push = Frontier.push

    def wrong(*arguments: Any, **options: Any) -> Any:
        options.pop("volatile", None)
        return push(*arguments, **options)

    Frontier.push = wrong  # type: ignore[method-assign]


def reading_values() -> None:
    """Let each plain request in memory count before its page."""
    crawl_engine.stands_alone = lambda *_: True  # type: ignore[attr-defined]


def keeping_cookies() -> None:
    """Leave the cookies out of the checkpoints."""
    CookieJars.of = lambda *_: None  # type: ignore[method-assign]


def many_files() -> None:
    """Let this process have few files open at a time: a crawl has some 30."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))


def many_files_and_closing_them() -> None:
    """Keep every output file open, too, as long as the process lives."""
    many_files()
    opened = Target.open

    def kept_open(self: Target, spider: Any) -> Any:
        file = opened(self, spider)
        os.dup(file.fileno())
        return file

    Target.open = kept_open  # type: ignore[assignment,method-assign]


def script_without(*checks: str) -> bytes:
    """Return the script of a commit on Redis without the lines that hold these."""
    from bloomdupe.store.redis.client import lua

    lines = lua("commit").decode().splitlines()
    kept = [line for line in lines if not any(check in line for check in checks)]
    assert len(lines) - len(kept) == len(checks)
    return "\n".join(kept).encode()


def fence() -> None:
    """Let a worker commit whatever it believes, and never sample who it is."""
    from bloomdupe.store.redis import owner

    owner.COMMIT = script_without(*FENCE, *STEP)
    workers: Any = owner.PartitionOwner
    workers.sample_as_owner = workers.sample
    workers.still_owns = lambda *_: True
