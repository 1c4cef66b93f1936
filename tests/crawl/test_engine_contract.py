"""The contract of the engines: on disk and on Redis, beside a model in plain Python.

No site is asked. A spider works on the requests in the place of Scrapy, in any order.
However a run ends, each request is acknowledged once, with its output.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from spiders.contract import Drives, overlaps
from support.crawl import FEEDS, Before, Crawl
from support.engine_model import Ask, Model, Page, Program, Run
from support.engines import DISK, Redis
from support.site import Site
from support.taken_out import waiting_for_pages

PAGES = 6
MOST_REQUESTS = 40

ENDED, INCOMPLETE = 0, 1
"""Exit statuses."""

texts = st.sampled_from(["a", "b"])
memories = st.sampled_from(["", "", "own", "shared"])
priorities = st.integers(-1, 1)
runs = st.builds(
    Run,
    events=st.lists(
        st.tuples(
            st.integers(1, 30), st.sampled_from(["kill", "break", "cut", "stop"])
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda event: event[0],
    ).map(tuple),
    order=st.lists(st.integers(0, 9), max_size=8).map(tuple),
    durable=st.lists(st.booleans(), max_size=6).map(tuple),
    failures=st.lists(
        st.sampled_from(["", "downloader", "callback", "mirror"]), max_size=4
    ).map(tuple),
)


@st.composite
def pages(draw: st.DrawFn, number: int, most: int) -> Page:
    """Return a page. Requests with ``dont_filter`` lead on, so the crawl ends."""
    links = st.builds(
        Ask, st.integers(0, most - 1), st.just(False), memories, priorities
    )
    outputs: list[st.SearchStrategy[Any]] = [texts, links]
    targets: st.SearchStrategy[int | None] = st.none()
    if number + 1 < most:
        further = st.integers(number + 1, most - 1)
        outputs.append(st.builds(Ask, further, st.just(True), memories, priorities))
        targets = st.one_of(st.none(), st.none(), further)
    return Page(
        tuple(draw(st.lists(st.one_of(outputs), max_size=5))),
        draw(st.sampled_from([0, 0, 0, 1, 2])),
        draw(targets),
    )


@st.composite
def programs(draw: st.DrawFn) -> Program:
    most = draw(st.integers(1, PAGES))
    starts = st.builds(
        Ask, st.integers(0, most - 1), st.booleans(), memories, priorities
    )
    return Program(
        tuple(draw(pages(number, most)) for number in range(most)),
        tuple(draw(st.lists(starts, min_size=1, max_size=2))),
    )


def is_good(program: Program) -> bool:
    """Whether a program is short, and no page leads back to a start page otherwise.

    With another callback that may pass once more, as in Scrapy: that is a rule of the
    crawl, and not of its engines.
    """
    model = Model(program, MOST_REQUESTS)
    return model.requests <= MOST_REQUESTS and not model.second_uses


short_programs = programs().filter(is_good)

EVERYTHING = Program(
    (
        Page((Ask(1), "a", Ask(2, again=True), Ask(2, again=True), Ask(3), "a")),
        Page((Ask(4, memory="own"), "b", Ask(5, True, "shared"), Ask(0)), fails=1),
        Page((Ask(3, again=True), "a", Ask(4))),
        Page((), fails=0, leads_to=5),
        Page((Ask(5, True, "own"), Ask(5, True, "own"), Ask(2)), fails=1),
        Page(("a", "a", "b")),
    ),
    (Ask(0, again=True), Ask(1)),
)
EVERY_END = [
    Run(((9, "break"), (17, "kill")), (3, 1, 4, 1, 5), (True, False)),
    Run(((12, "cut"),), (2, 7, 1), (False, True, True), ("", "downloader")),
    Run(((4, "break"), (15, "stop")), (8, 2), (True,), ("callback", "mirror")),
]

IN_MEMORY = Program(
    (Page((Ask(1, again=True, memory="own"),)), Page((Ask(2, again=True),)), Page())
)
"""A page, its child in memory, and the child of that."""
RETRIED = [
    Run(((5, "kill"),), (1, 0), durable=(True,)),
    Run(failures=("downloader", "callback")),
]
"""The last child is stored before the kill, and then the first page is retried."""

TARGET_IN_MEMORY = Program(
    (
        Page((Ask(1, memory="own"), Ask(2))),
        Page((Ask(3, again=True),)),
        Page(leads_to=1),
        Page(),
    )
)
"""A page has a child in memory, and another page redirects to that."""
REDIRECTED = [Run(((6, "kill"),), (0, 0, 0, 0, 0, 1), durable=(True,))]
"""The last child is stored before the kill, and then the redirect comes first."""


@pytest.fixture(params=["disk", "redis"])
def crawls(
    request: pytest.FixtureRequest, tmp_path: Path, site: Site
) -> Callable[[], Crawl]:
    """Return a function that returns a new crawl, on each engine."""
    numbers = count()
    server: Any = None
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")

    def new() -> Crawl:
        place = tmp_path / str(next(numbers))
        engine = DISK if server is None else Redis(server, str(place))
        crawl = Crawl(place, site, engine, FEEDS=FEEDS)
        if server is None:
            crawl.settings["BLOOMDUPE_CHECKPOINT_INTERVAL"] = 3600
        return crawl

    return new


def finishes(crawl: Crawl, program: Program, order: Run, before: Before | None) -> bool:
    """Run a program; return whether it is finished.

    One worker at a time, or they would wait for each other: each is driven by hand.
    """
    given: Any = {"PROGRAM": program.dumped(), "RUN": json.dumps(order)}
    run = crawl.start(Drives, before=before, **given).wait()
    crawl.engine.pass_on("", last=True)
    assert run.status in (ENDED, INCOMPLETE, -signal.SIGKILL), run.log
    assert "CRITICAL" not in run.log, run.log
    return (run.status, run.finish_reason) == (ENDED, "finished")


def check(
    crawl: Crawl,
    program: Program,
    interrupted: list[Run],
    before: Before | None = None,
) -> None:
    """Run a program with these interruptions, and to the end; compare its items."""
    with crawl:
        if not any(finishes(crawl, program, run, before) for run in interrupted):
            assert finishes(crawl, program, Run(), before)
        assert crawl.engine.finished
        items = Counter(item["item"] for item in crawl.items())
        assert items == Model(program, MOST_REQUESTS).items


@example(EVERYTHING, EVERY_END)
@example(IN_MEMORY, RETRIED)
@example(TARGET_IN_MEMORY, REDIRECTED)
@example(
    Program((Page((Ask(0, memory="own"),)),), (Ask(0, again=True, memory="own"),)), []
)
@example(Program(), [Run(((2, "kill"),), durable=(True,), failures=("mirror",))])
@example(Program((Page(),), (Ask(0, memory="own"),)), [Run(((1, "break"),))])
@given(short_programs, st.lists(runs, max_size=3))
@settings(
    max_examples=settings().max_examples // 4,
    # Each example makes a crawl of its own.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_each_request_is_done_once(
    crawls: Callable[[], Crawl], program: Program, interrupted: list[Run]
) -> None:
    check(crawls(), program, interrupted)


def test_a_page_waits_for_its_child_in_memory(crawls: Callable[[], Crawl]) -> None:
    """The page is not done, because a child in memory broke off before it ended."""
    program = Program((Page((Ask(1, memory="own"),), fails=1), Page()))
    check(crawls(), program, [Run(((5, "break"),))], overlaps)


CHILD = Program((Page((Ask(1, again=True),)), Page()))
"""A page, and its child."""
CHILD_STORED = Run(((2, "kill"),), order=(1,), durable=(True,))
"""The child is stored before its page is done."""


RETRIES = [Run(failures=("downloader", "downloader"))]
"""The page is retried when it runs again."""


@pytest.mark.parametrize(
    "later",
    [pytest.param([], id="durable at once"), pytest.param(RETRIES, id="and retried")],
)
@pytest.mark.parametrize("crawls", ["disk"], indirect=True)
def test_the_control_is_noticed(crawls: Callable[[], Crawl], later: list[Run]) -> None:
    check(crawls(), CHILD, [CHILD_STORED, *later])
    with pytest.raises(AssertionError, match="page 1, 0 retries: ': 2"):
        check(crawls(), CHILD, [CHILD_STORED, *later], waiting_for_pages)
