"""F25: spiders that chance has put together, killed at random points."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from programs import FEATURES, ON_DISK, SETTINGS, Program, answer_to, made
from spiders.generated import Generated
from stop_points import Crawling, killed, on_disk, on_redis, tried
from support.stops import Stop
from table import Idiom
from trial import Fault, Outcome

RAISING = {"fails"}
NOT_STORED = {"closure", "lambda"}


WITH_CHILDREN: Program = {
    "pages": {},
    "bodies": {
        "start": [["ask", "p0", {}]],
        "p0": [
            ["ask", "x0", {"page": "p0", "by": "kwargs"}],
            ["pause"],
            ["item", "a"],
        ],
        "x0": [["item", "x"]],
    },
    "uses": [],
}
"""A page with a child, which is stored when it is killed after the pause."""


def idiom_of(program: Program) -> Idiom:
    """Return the spider of a program, with its site and its settings."""
    settings: dict[str, Any] = {"RETRY_TIMES": 2}
    pipelines: dict[str, int] = {}
    for use in program["uses"]:
        settings |= SETTINGS[use]
        pipelines |= settings.pop("ITEM_PIPELINES", {})
    text = json.dumps(program)
    asked_by_hand = text.count('"inline"') + 2 * text.count('"files"')
    return Idiom(
        Generated,
        settings={**settings, "ITEM_PIPELINES": pipelines, "PROGRAM": text},
        # A request that cannot be stored comes again with all that led to it.
        repeats=None
        if any(f'"{kind}"' in text for kind in NOT_STORED)
        else 2 * asked_by_hand + ('"close"' in text),
        # Children that are done while their page works come again with it.
        asks=text.count('"by"'),
        raises='"raise"' in text or not RAISING.isdisjoint(program["uses"]),
        pages=partial(answer_to, program),
    )


class GeneratedSpiders(Fault):
    """Programs on an engine. Case 0 has the first set of features, and so on."""

    number = "F25"
    features: ClassVar[tuple[str, ...]]
    times: ClassVar[int]
    """Crawls of a program that are killed."""
    crawl: ClassVar[Crawling]

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        program = made(seed, self.features)
        found = killed(self.crawl, idiom_of(program), seed, folder, self.times)
        return [outcome.at(f"{json.dumps(program)}\n  ") for outcome in found]

    def control(self, folder: Path) -> list[Outcome]:
        """The fingerprints of children are forgotten at a restart."""
        idiom, stops = idiom_of(WITH_CHILDREN), [Stop(point="here p0 2")]
        without = "waiting_for_pages"
        return tried(self.crawl, idiom, lambda _: [stops], folder, without=without)


class OnDisk(GeneratedSpiders):
    """With a JOBDIR."""

    name = "`kill -9` of generated spiders"
    cases = 20
    times = 2
    features = tuple(FEATURES)
    crawl = staticmethod(on_disk)


class OnRedis(GeneratedSpiders):
    """On a Redis, one worker after the other."""

    name = "`kill -9` of generated spiders on Redis"
    cases = 20
    times = 1
    needs = "redis-server"
    features = tuple(name for name in FEATURES if name not in ON_DISK)
    crawl = staticmethod(on_redis)
