"""The program of crawls that several workers share: the features of everyday spiders.

It is one of ``programs.py``, with each of these features in many places, and with
features that matter to several workers: hosts, over which the pages are spread, and
slots with other names; pages that all workers have in memory; and pages that are
revisited, or added.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

from programs import FEATURES, ROOTS, Making, Program

EACH = 25
"""Pages of the tree for which each feature is there once more."""
OFTEN = (
    "flaky pages",
    "children by arguments",
    "grandchildren",
    "redirects",
    "errbacks",
    "given up",
    "inline downloads",
    "delays",
    "raises",
)
ONCE = (
    "start items",
    "start children",
    "pipeline waits",
    "pipeline drops",
    "partials",
    "priorities",
)
OTHER_SLOTS = 4
"""In which a link names one, instead of its host."""
DAY = 86_400
"""Seconds, after which some pages are revisited."""
MOST = 90
"""Pages of a slot, more than any but ``trap`` has."""
TOO_MANY = 20
"""Pages of ``trap`` that are more than these."""
ADDED = 24
"""Pages to which nothing leads: their URLs are added."""
FEEDS = {"items": "builtins.dict", "failed": "spiders.generated.Failed"}
"""With the classes of their items."""

SETTINGS: dict[str, Any] = {
    "BLOOMDUPE_MAX_PAGES_PER_SLOT": MOST,
    "BLOOMDUPE_RETRY_BACKOFF": (0.05, 2, 0.2),
    "BLOOMDUPE_WAIT": 20,
    "CONCURRENT_REQUESTS": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 3,
    "DOWNLOAD_DELAY": 0,
    "FEEDS": {
        f"{name}.jsonl": {
            "format": "jsonlines",
            "item_classes": [kind],
        }
        for name, kind in FEEDS.items()
    },
    "ITEM_PIPELINES": {"spiders.generated.Wait": 200, "spiders.generated.Drop": 300},
    "LOG_LEVEL": "INFO",
    "RETRY_ENABLED": True,
    "RETRY_PRIORITY_ADJUST": -1,
    "RETRY_TIMES": 2,
}
"""The settings of both stock Scrapy, which ignores some, and the workers."""


def shared_program(seed: int, size: int, across: int) -> Program:
    """Make a program with so many pages of the tree, and links across from each."""
    making = Making(seed, size, across)
    for _ in range(size // EACH):
        for feature in (*map(FEATURES.__getitem__, OFTEN), in_memory):
            feature(making)
    for name in ONCE:
        FEATURES[name](making)
    trap(making)
    making.bodies |= {f"added{number}": [["item", "a"]] for number in range(ADDED)}
    targets = {kind.rpartition(" ")[2] for kind in making.pages.values()}
    revisited = [
        page
        for page in making.ordinary[ROOTS:]
        if making.pages[page] == "ok"
        and page not in targets
        # A child would come again with it.
        and all(
            step[0] == "item" or (step[0] == "ask" and "page" not in step[2])
            for step in making.bodies[page]
        )
    ][::4]
    for body in making.bodies.values():
        for step in body:
            if step[0] == "ask":
                page = step[2].get("page", step[1])
                again = {"bloomdupe_revisit": DAY} if page in revisited else {}
                meta = {**slot_of(page, making.rng), **again}
                step[2]["meta"] = {**step[2].get("meta", {}), **meta}
                if not page.startswith("trap"):  # or they would come in any order
                    making.hosts[page] = number_of(page, making.pages)
    return {**making.program(), "revisited": [f"/{page}" for page in revisited]}


def slot_of(page: str, rng: Random) -> dict[str, str]:
    """Return the name of a slot, where a link to a page has one."""
    if page.startswith("trap"):
        return {"download_slot": "trap"}
    other = rng.randrange(3 * OTHER_SLOTS)
    return {"download_slot": f"other{other}"} if other < OTHER_SLOTS else {}


def number_of(page: str, pages: dict[str, str]) -> int:
    """Return the number of a page, or of its target, which has the same host."""
    return int(re.sub(r"\D", "", pages.get(page, "").partition("to ")[2] or page))


def in_memory(making: Making) -> None:
    """Many pages lead to one with a callback that cannot be stored; so does that."""
    page = f"common{making.rng.randrange(4)}"
    on, off = f"{page}on", f"{page}off"
    leading = [["ask", on, {"callback": "closure"}], ["ask", off, {}]]
    making.bodies |= {page: [["item", "a"], *leading]}
    making.bodies |= {end: [["item", "a"]] for end in (on, off)}
    for body in making.some(4):
        making.put(body, ["ask", page, {"callback": "closure"}])


def trap(making: Making) -> None:
    """More pages of a slot than there may be."""
    pages = [f"trap{number}" for number in range(1, MOST + TOO_MANY)]
    making.bodies |= {page: [["item", "a"]] for page in pages}
    making.bodies["trap0"] = [["item", "a"], *(["ask", page, {}] for page in pages)]
    making.put(making.some(1)[0], ["ask", "trap0", {}])


def for_stock(program: Program, added: int) -> Program:
    """Return what stock Scrapy does: without a limit, and without added URLs."""
    bodies = program["bodies"]
    more = [["ask", f"added{number}", {}] for number in range(added)]
    changed = {"start": [*bodies["start"], *more], "trap0": bodies["trap0"][:MOST]}
    return {**program, "bodies": {**bodies, **changed}}
