"""Protections taken out, for the controls: a judge must see that they are missing.

A project calls such a function before it crawls; see :class:`crawls.Crawl`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from bloomdupe.store.participant import Part


def consuming_while_preparing() -> None:
    """Let feeds forget their lines before the checkpoint of these is durable."""
    from bloomdupe.feeds.exporter import FeedExporter

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
    from bloomdupe.crawl.ending import Stopping

    Stopping.fail = lambda *_: None  # type: ignore[method-assign]


def remembering_starts() -> None:
    """Schedule start requests whenever ``start()`` yields them."""
    from bloomdupe.crawl.starting import Starting, StartVerdict

    Starting.judge = lambda *_, **__: StartVerdict(  # type: ignore[method-assign]
        skip=False, forced=True
    )


def waiting_for_pages() -> None:
    """Let each request be durable at once, though its page is not settled."""
    from bloomdupe.frontier.frontier import Frontier

    push = Frontier.push

    def wrong(*arguments: Any, **options: Any) -> Any:
        options.pop("volatile", None)
        return push(*arguments, **options)

    Frontier.push = wrong  # type: ignore[method-assign]


def keeping_cookies() -> None:
    """Leave the cookies out of the checkpoints."""
    from bloomdupe.inside_scrapy.cookie_jars import CookieJars

    CookieJars.of = lambda *_: None  # type: ignore[method-assign]


def closing_files() -> None:
    """Keep every output file open, as long as the process lives."""
    from bloomdupe.feeds.delivery import Target

    opened = Target.open

    def kept_open(self: Target, spider: Any) -> Any:
        file = opened(self, spider)
        os.dup(file.fileno())
        return file

    Target.open = kept_open  # type: ignore[assignment,method-assign]
