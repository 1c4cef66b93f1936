"""Programs: spiders as data, made by chance from features.

A program is a dictionary that could be JSON:

``pages``   the answers of the site: see :func:`answer_to`
``hosts``   the hosts of pages that are on another one: numbers for ``on_host()``
``bodies``  lists of steps of the spider, by names: see ``tests/spiders/generated.py``
``limits``  ``CLOSESPIDER_...`` settings of the first runs
``uses``    names of :data:`SETTINGS`

A body is a list of steps. ``["ask", BODY, OPTIONS]`` is a request. Without the option
``page`` it is a link to the page of that name. The body of a page is done once, by the
request that comes first. With ``page`` it is a child with ``dont_filter``, and carries
the name of its body in the way that the option ``by`` says. So the items of a program
do not depend on the order of its requests, and stock Scrapy can be asked for them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from support.site import Answer, Visit, on_host

Program: TypeAlias = dict[str, Any]
Step: TypeAlias = list[Any]

ROOTS = 3
"""Pages to which ``start()`` leads."""
PLACES = 2
"""Pages on which a feature is found."""
WAYS = ("kwargs", "meta")
"""How a child may carry the name of its body."""
IN_A_PROGRAM = 14
"""Features of a program of the covering array."""
MORE = 2
"""Further features, by chance."""
LATER = {"bloomdupe_delay": 0.05}

SETTINGS: dict[str, dict[str, Any]] = {
    "backoff": {"BLOOMDUPE_RETRY_BACKOFF": (0.02, 1, 0.04)},
    "batches": {
        "FEEDS": {
            "items-%(batch_id)d.jsonl": {"format": "jsonlines"},
            "items-%(batch_id)d.csv": {"format": "csv"},
        },
        "FEED_EXPORT_BATCH_ITEM_COUNT": 4,
    },
    "one by one": {"CONCURRENT_REQUESTS_PER_DOMAIN": 1},
    "slots": {"BLOOMDUPE_MAX_PENDING_PER_SLOT": 1000},
    "media": {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 100},
        "FILES_STORE": "files",
    },
    "waits": {"ITEM_PIPELINES": {"spiders.generated.Wait": 200}},
    "drops": {"ITEM_PIPELINES": {"spiders.generated.Drop": 300}},
    "fails": {"ITEM_PIPELINES": {"spiders.generated.Fail": 400}},
}  # fmt: skip
"""That a program uses, by name."""


# The site


def url_of(program: Program, base: str, page: str) -> str:
    """Return the URL of a page, on its host."""
    url, number = f"{base}/{page}", program.get("hosts", {}).get(page)
    return url if number is None else on_host(url, number)


def answer_to(program: Program, visit: Visit) -> Answer | None:
    """Answer a request for a page of a program.

    ``to P`` redirects to a page, and ``own`` to itself until there is a cookie.
    ``flaky`` fails at the first visit, ``cut`` does not answer it, and ``soft`` asks to
    come again. ``broken`` fails for good, and ``gone`` is not there. ``login`` sets a
    cookie that says who it is, and ``private`` repeats it.
    """
    page = urlsplit(visit.path).path.strip("/")
    kind, *words = program["pages"].get(page, "ok").split()
    first, cookie = visit.number == 1, visit.headers.get("Cookie", "")
    if kind == "to":
        return Answer("", 302, {"Location": url_of(program, visit.base, words[0])})
    if kind == "own" and "own=1" not in cookie:
        headers = {
            "Location": visit.path,
            "Set-Cookie": f"own=1; Path={visit.path}",
        }
        return Answer("", 302, headers)
    if kind == "cut" and first:
        return None
    if kind == "login":
        return Answer("hello", headers={"Set-Cookie": "user=me; Path=/"})
    status = {"broken": 500, "gone": 404, "flaky": 503 if first else 200}
    text = {"soft": "again" if first else "ok"}
    if kind == "private":
        text[kind] = "for me" if "user=me" in cookie else "for nobody"
    return Answer(text.get(kind, "ok"), status.get(kind, 200))


# Features


class Making:
    """A program that is being made."""

    def __init__(self, seed: int, size: int, across: int = 1) -> None:
        self.rng = random.Random(seed)
        self.bodies: dict[str, list[Step]] = {}
        self.pages: dict[str, str] = {}
        self.hosts: dict[str, int] = {}
        self.uses: list[str] = []
        self.limits: dict[str, int] = {}
        self.links: list[tuple[str, dict[str, Any]]] = []
        """Page and options of all links, for the features that change some of them."""
        self._names = itertools.count()
        self.ordinary = tree = [f"p{number}" for number in range(size)]
        self.bodies["start"] = [self.link(page) for page in tree[:ROOTS]]
        for number, page in enumerate(tree):
            below = tree[2 * number + ROOTS : 2 * number + ROOTS + 2]
            far = [self.rng.choice(tree) for _ in range(across)]
            self.pages[page] = "ok"
            self.bodies[page] = [
                ["item", "a"],
                *(self.link(other) for other in dict.fromkeys([*far, *below])),
            ]

    def link(self, page: str) -> Step:
        options: dict[str, Any] = {}
        self.links.append((page, options))
        return ["ask", page, options]

    def child(self, page: str, by: str | None = None, **options: Any) -> Step:
        """Return a child for a page, with a body of its own: an item, or a bit more."""
        body = f"x{next(self._names)}"
        by = by or self.rng.choice(WAYS)
        self.bodies[body] = [["item", "x"]]
        if self.rng.random() < 0.4:
            self.bodies[body].append(self.link(self.rng.choice(self.ordinary)))
        return ["ask", body, {"page": page, "by": by, **options}]

    def some(self, count: int = PLACES) -> list[str]:
        return self.rng.sample(self.ordinary, count)

    def put(self, body: str, *steps: Step) -> None:
        """Put steps into a body, somewhere."""
        where = self.rng.randint(0, len(self.bodies[body]))
        self.bodies[body][where:where] = steps

    def page(self, kind: str) -> str:
        """Return a new page of a kind."""
        page = f"{kind.split()[0]}{next(self._names)}"
        self.pages[page] = kind
        return page

    def lead_to(self, kind: str, child: str | None = None) -> None:
        """Have a page of a kind, to which links lead, and one for a child."""
        page = self.page(kind)
        self.bodies[page] = [["item", "a"], self.link(self.some(1)[0])]
        for body in self.some():
            self.put(body, self.link(page))
        self.put(self.some(1)[0], self.child(self.page(child or kind)))

    def program(self) -> Program:
        program: Program = {
            "pages": self.pages,
            "bodies": self.bodies,
            "uses": self.uses,
        }
        program |= {"limits": self.limits, "hosts": self.hosts}
        return deepcopy(program)


Steps: TypeAlias = Callable[[Making, str], list[Step]]


def put(steps: Steps, places: int = PLACES) -> Callable[[Making], None]:
    def make(making: Making) -> None:
        """Put steps into some bodies; they are made of the name of the body."""
        for body in making.some(places):
            making.put(body, *steps(making, body))

    return make


def at_start(steps: Steps, times: int = 1) -> Callable[[Making], None]:
    def make(making: Making) -> None:
        """Put steps into ``start()``."""
        for number in range(times):
            making.put("start", *steps(making, f"{number}"))

    return make


def some_children(making: Making, page: str, count: int = 4) -> list[Step]:
    return [making.child(page) for _ in range(count)]


def children(making: Making, by: str) -> None:
    """Have several children for the own page, distinguished in one way."""
    for body in making.some():
        making.put(body, *(making.child(body, by) for _ in range(3)))
        making.put(body, ["pause"])


def links_with(making: Making, callback: str) -> None:
    """Have a callback of all links to a third of the pages."""
    pages = sorted({page for page, _ in making.links})
    chosen = making.rng.sample(pages, len(pages) // 3)
    for page, options in making.links:
        if page in chosen:
            options["callback"] = callback


def priorities(making: Making) -> None:
    for _, options in making.links:
        options["priority"] = making.rng.randint(-2, 2)


def callbacks(making: Making) -> None:
    for _, options in making.links:
        kinds = ("parse", "parse_plainly", "parse_list")
        options.setdefault("callback", making.rng.choice(kinds))


def other_page(making: Making) -> None:
    """A child for a page to which links lead, too."""
    body, page = making.some()
    making.put(body, making.child(page), ["pause"], making.child(page))


def grandchildren(making: Making) -> None:
    """A page and its children have children for the same page."""
    (body,) = making.some(1)
    page = making.page("ok")
    for _ in range(3):
        child = making.child(body)
        making.put(child[1], making.child(page))
        making.put(body, child, ["pause"], making.child(page))


def redirects(making: Making) -> None:
    for page in making.some():
        making.lead_to(f"to {page}", f"to {making.page('ok')}")


def far(making: Making) -> None:
    """Pages on another host, and redirects to it."""
    pages = making.some(len(making.ordinary) // 3)
    pages.append(apart := making.page("ok"))
    making.hosts |= dict.fromkeys(pages, 0)
    making.lead_to(f"to {pages[0]}", f"to {apart}")


def some_are(making: Making, kind: str) -> None:
    for page in making.some():
        making.pages[page] = kind
    making.lead_to(kind)


def fails(making: Making, kind: str) -> None:
    """Have pages that fail, with an errback that yields."""
    for _ in range(PLACES):
        page = making.page(kind)
        making.bodies[f"{page}!"] = [
            ["item", "failed"],
            making.link(making.some(1)[0]),
            making.child(making.page("ok")),
        ]
        making.put(making.some(1)[0], making.link(page))


def idle(making: Making) -> None:
    making.bodies["idle"] = [making.link(making.page("ok")) for _ in range(3)]


def login(making: Making) -> None:
    page = making.page("login")
    making.bodies[page] = [["item", "in"]]
    for _ in range(3):
        private = making.page("private")
        apart = making.child(making.page("private"))
        making.bodies[private] = [["item", "mine"], apart]
        making.bodies[page].append(making.link(private))
    making.put(making.some(1)[0], making.link(page))


def delays(making: Making) -> None:
    for body in making.some(3):
        making.put(body, making.child(body, meta=LATER))
        making.put(body, ["ask", making.page("ok"), {"meta": LATER}])


def closes(making: Making) -> None:
    (body,) = making.some(1)
    making.put(body, ["item", "before"], ["close"])


def raises(making: Making) -> None:
    (body,) = making.some(1)
    making.put(body, ["item", "before"])
    making.bodies[body].append(["raise"])


def media(making: Making) -> None:
    making.uses.append("media")
    shared = making.page("ok")
    for body in making.some():
        making.put(body, ["files", [shared, making.page("ok")]])


FEATURES: dict[str, Callable[[Making], None]] = {
    # First, so that they find no other pages than the tree's.
    "far pages": far,
    "flaky pages": lambda m: some_are(m, "flaky"),
    "cut answers": lambda m: some_are(m, "cut"),
    "soft retries": lambda m: some_are(m, "soft"),
    "children by arguments": lambda m: children(m, "kwargs"),
    "children by meta": lambda m: children(m, "meta"),
    "another order": put(
        lambda m, body: [
            ["shuffled", [*some_children(m, body), ["item", "s"]]],
            ["pause"],
        ]
    ),
    "child of a linked page": other_page,
    "grandchildren": grandchildren,
    "yielded twice": put(lambda m, _: [m.child(m.page("ok"), twice=True)]),
    "redirects": redirects,
    "redirect to itself": put(lambda m, _: [m.child(m.page("own"))]),
    "errbacks": lambda m: fails(m, "gone"),
    "given up": lambda m: fails(m, "broken"),
    "inline downloads": put(lambda m, _: [["inline", m.page("ok")]]),
    "pauses": put(lambda *_: [["pause"]], 4),
    "start items": at_start(lambda _, number: [["item", number]], 3),
    "start waits": at_start(lambda *_: [["pause"]], 2),
    "start children": at_start(lambda m, _: some_children(m, m.page("ok"), 3)),
    "start inline": at_start(lambda m, _: [["inline", m.page("ok")]]),
    "idle": idle,
    "engine.crawl": put(lambda m, _: [["ask", m.page("ok"), {"crawl": True}]]),
    "login": login,
    "delays": delays,
    "CloseSpider": closes,
    "page count": lambda m: m.limits.update(CLOSESPIDER_PAGECOUNT=8),
    "item count": lambda m: m.limits.update(CLOSESPIDER_ITEMCOUNT=8),
    "raises": raises,
    "media": media,
    "backoff": lambda m: m.uses.append("backoff"),
    "batches": lambda m: m.uses.append("batches"),
    "one by one": lambda m: m.uses.append("one by one"),
    "limits per slot": lambda m: m.uses.append("slots"),
    "pipeline waits": lambda m: m.uses.append("waits"),
    "pipeline drops": lambda m: m.uses.append("drops"),
    "pipeline fails": lambda m: m.uses.append("fails"),
    # Last, so that they change links of all kinds.
    "lambdas": lambda m: links_with(m, "lambda"),
    "partials": lambda m: links_with(m, "partial"),
    "closures": lambda m: links_with(m, "closure"),
    "callbacks": callbacks,
    "priorities": priorities,
}
ON_DISK = {"batches", "limits per slot"}
"""Features that a crawl on Redis refuses."""


@cache
def covering(features: tuple[str, ...], size: int = IN_A_PROGRAM) -> list[list[str]]:
    """Return sets of features among which each pair occurs; the same in each run."""
    missing = set(map(frozenset, itertools.combinations(features, 2)))
    rows: list[list[str]] = []

    def gain(row: list[str], feature: str) -> int:
        return sum(frozenset((feature, other)) in missing for other in row)

    while missing:
        row = [name for name in features if name in min(missing, key=sorted)]
        while len(row) < size:
            rest = [name for name in features if name not in row]
            row.append(max(rest, key=lambda name: gain(row, name)))
        rows.append(row)
        missing -= set(map(frozenset, itertools.combinations(row, 2)))
    return rows


def made(seed: int, features: tuple[str, ...]) -> Program:
    """Make a program from ``features``: a row of the array, and some by chance."""
    rows = covering(features)
    making = Making(seed, 6 + seed % 7)
    chosen = {*rows[seed % len(rows)], *making.rng.sample(features, MORE)}
    for name, feature in FEATURES.items():
        if name in chosen:
            feature(making)
    program = making.program()
    program["features"] = sorted(chosen)
    return program
