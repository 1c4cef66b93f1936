"""What the spider remembers: it is there when a crawl resumes."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from scrapy import Spider
from scrapy.utils.python import global_object_name
from spiders.attributes import (
    Hangs,
    Login,
    Menus,
    NewSite,
    Numbers,
    OwnSet,
    Pages,
    Rows,
    be_patient,
    commit_each,
    hold_for,
    write_at_the_end,
)
from support.crawl import FEEDS, Crawl
from support.engines import on_both_engines
from support.jobs import idle_crawler
from support.site import PAGES as SITE
from support.site import Page, links
from support.waiting import DEADLINE

from bloomdupe.crawl.state.memory import (
    ATTRIBUTES,
    MOST_PARTS,
    STATE,
    SpiderMemory,
    _packed,
)
from bloomdupe.requests.values import pack
from bloomdupe.store.format import BLOBS
from bloomdupe.store.store import Part

PAGES: dict[str, Page] = {**SITE, "/login": links("/")}
PATHS = sorted(path[1:] for path in PAGES)

SETTINGS = {"CONCURRENT_REQUESTS": 1, "FEEDS": FEEDS}


def lines(crawl: Crawl) -> list[tuple[str, str]]:
    return sorted((item["path"], item["token"]) for item in crawl.items())


EXPECTED = [(path, "a token") for path in PATHS]


@pytest.mark.slow
def test_a_crawl_resumes_with_the_token_of_its_login_and_its_new_arguments(
    crawl: Crawl,
) -> None:
    crawl.interrupted(Login, after=3)
    crawl.killed(Login, at_request=4)
    resumed = crawl.interrupted(Login, after=1)
    assert resumed.stats["begun_with"] == ["a token", "of the login"]
    changed = crawl.interrupted(NewSite, after=1)
    assert changed.stats["begun_with"] == ["a token", "of the changed class"]
    given = crawl.run(NewSite, ARGUMENTS={"site": "of the argument"})
    assert given.stats["begun_with"] == ["a token", "of the argument"]
    assert crawl.site.count["/login"] == 1
    assert lines(crawl) == EXPECTED


@pytest.mark.slow
def test_without_the_setting_the_crawl_loses_its_token(crawl: Crawl) -> None:
    """The control."""
    crawl.settings["BLOOMDUPE_SPIDER_ATTRIBUTES"] = False
    crawl.interrupted(Login, after=3)
    assert crawl.run(Login).stats["begun_with"] == [None, "of the class"]
    assert len(lines(crawl)) < len(EXPECTED)


@pytest.mark.parametrize(
    ("spider", "longest", "all_there"),
    [(Pages, DEADLINE, True), (Pages, 0.1, False), (Rows, DEADLINE, True)],
)
def test_a_page_whose_pipeline_is_at_work_does_not_find_what_it_has_counted(
    crawl: Crawl, spider: type[Spider], longest: float, *, all_there: bool
) -> None:
    """Nor does an item of ``start()``. The control: no hold is long enough."""
    crawl.site.pages, crawl.starts = {f"/{n}": "" for n in range(12)}, ("/0",)
    crawl.settings["BLOOMDUPE_CHECKPOINT_INTERVAL"] = 0.002
    hangs = {"ITEM_PIPELINES": {global_object_name(Hangs): 1}}
    hold = partial(hold_for, longest)
    crawl.killed(spider, at_request=12, before=hold, **hangs)
    crawl.run(spider)
    found = Counter(item["item"] for item in crawl.items())
    assert (found == {str(n): 1 for n in range(12)}) == all_there


@on_both_engines
def test_what_a_spider_changes_in_its_class_is_changed_there(crawl: Crawl) -> None:
    crawl.site.pages, crawl.starts = {f"/{n}": "" for n in range(8)}, ("/0",)
    crawl.interrupted(Numbers, after=3)
    crawl.run(Numbers)
    found = sorted(item["item"] for item in crawl.items())
    assert found == [f"{n}" for n in range(8)]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("engine", "overdue"),
    [
        ("disk", 1 << 40),
        ("disk", 1),
        pytest.param("redis", 1 << 40, marks=pytest.mark.slow),
    ],
    indirect=["engine"],
)
def test_no_checkpoint_has_a_half_of_a_page_because_of_many_requests(
    crawl: Crawl, overdue: int
) -> None:
    """The control: there are so many that it cannot wait; on Redis it may be late."""
    crawl.site.pages = {"/0": links("/1", "/2"), "/1": "", "/2": "", "/plain": ""}
    crawl.starts = ("/0",)
    crawl.killed(OwnSet, at_request=2, before=partial(commit_each, overdue))
    crawl.run(OwnSet)
    found = sorted(item["item"] for item in crawl.items())
    assert (found == ["0", "1", "2", "plain"]) == (overdue > 1)


@on_both_engines
@pytest.mark.parametrize("before", [be_patient, write_at_the_end])
def test_after_ctrl_c_no_page_that_waits_for_its_parts_finds_itself(
    crawl: Crawl, before: Callable[[], None]
) -> None:
    """The second row is the control."""
    crawl.site.pages = dict.fromkeys(
        ("/a", "/b", "/plain", *(f"/{one}{n}" for one in "ab" for n in range(3))), ""
    )
    crawl.starts = ("/a", "/b")
    crawl.interrupted(Menus, after=3, before=before)
    crawl.run(Menus)
    found = Counter(item["item"] for item in crawl.items())
    assert (found == {"a": 4, "b": 4}) == (before is be_patient)


# Without a crawl


class Plain:
    """A spider with attributes of every kind."""

    retries = 1
    seen: ClassVar[list[int]] = []

    def __init__(self, **values: object) -> None:
        self.name = "s"
        self.pages: list[int] = []
        self.opened = object()
        vars(self).update(values)

    def parse(self) -> None:
        """Do nothing."""

    @property
    def host(self) -> str:
        return "host"


class Kept:
    """What a spider remembers in one run."""

    def __init__(
        self,
        spider: Any,
        stored: dict[str, bytes] | None = None,
        *,
        resumed: bool = True,
        started: bool = True,
        attributes: bool = True,
        places: Collection[str] = (),
    ) -> None:
        self.spider = spider
        self.stored = stored or {}
        crawler = idle_crawler()
        snapshot = SimpleNamespace(records=lambda _: self.records())
        self.frontier = SimpleNamespace(leads=True, store=SimpleNamespace(now=snapshot))
        engine: Any = SimpleNamespace(
            session=SimpleNamespace(
                crawler=crawler, spider=spider, stats=crawler.stats
            ),
            frontier=self.frontier,
            run=SimpleNamespace(resumed=resumed, started=started),
            settings=SimpleNamespace(spider_attributes=attributes, start_requests=""),
        )
        self.memory = memory = SpiderMemory(engine, places)
        self.prepare = memory.prepare
        self.spider_opened = memory.spider_opened

    def records(self) -> list[tuple[bytes, bytes]]:
        return [(name.encode(), one) for name, one in self.stored.items()]

    def open(self) -> Kept:
        self.spider_opened()
        return self

    def checkpoint(self) -> dict[str, bytes]:
        """Write a checkpoint, and return what is stored then."""
        part = self.prepare()
        part.done()
        changed = {**self.stored, **changes_of(part)}
        self.stored = {name: one for name, one in changed.items() if one is not None}
        return self.stored

    def resumed(self, spider: Any, **options: Any) -> Any:
        """Return the spider of the next run, when it is open."""
        return Kept(spider, self.checkpoint(), **options).open().spider


def changes_of(part: Part) -> dict[str, bytes | None]:
    return {name.decode(): value for name, value in part.changes[BLOBS].items()}


def test_attributes_that_callbacks_have_changed_come_again() -> None:
    spider: Any = Plain()
    kept = Kept(spider).open()
    vars(spider).update(ticket="t", name="other", lock=object(), retries=2)
    spider.pages.append(1)
    again = kept.resumed(Plain())
    assert vars(again).keys() == {"name", "pages", "opened", "ticket", "retries"}
    assert (again.ticket, again.pages, again.name) == ("t", [1], "s")


CHANGES: list[Callable[[Any], Any]] = [
    lambda spider: spider.pages.append(1),
    lambda spider: spider.found["deep"].update(a=True),
    lambda spider: spider.ids.add("c"),
    lambda spider: spider.seen.append(1),
    lambda spider: vars(spider).update(retries=True),
    lambda spider: vars(spider).update(new=None),
    lambda spider: vars(spider).update(opened="a text in the place of an object"),
]

NAMES = ("ids", "pages", "found", "seen", "retries")


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_kept(
    change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plain, "seen", [])  # as in a new process
    spider: Any = Plain(found={"deep": {"a": 1}}, ids={"a", "b"})
    kept = Kept(spider).open()
    assert not kept.checkpoint()
    empty = [kept.memory.is_empty]
    change(spider)
    stored = kept.checkpoint()
    assert stored
    assert not changes_of(kept.prepare()), "it has not changed since"
    assert [*empty, kept.memory.is_empty] == [True, False]
    values = [getattr(spider, name) for name in NAMES]
    monkeypatch.setattr(Plain, "seen", [])
    again = Kept(Plain(found={"deep": {"a": 1}}, ids={"b", "a"}), stored).open()
    found = [getattr(again.spider, name) for name in NAMES]
    assert found == values
    assert repr(found[1:]) == repr(values[1:]), "1 and True are not the same"
    assert again.checkpoint(), "and is kept on"


def test_what_start_sets_as_it_has_done_before_goes_on_from_where_it_was() -> None:
    def started(kept: Kept, run: str) -> None:
        vars(kept.spider).update(page=1, rank=1, run=run, todo=[1, 2])

    stored: dict[str, bytes] = {}
    for _ in range(2):  # once killed before its first output
        kept = Kept(Plain(rank=1, todo=[]), stored, started=False).open()
        started(kept, "a")
        stored = kept.checkpoint()
    assert kept.memory.start_began()
    vars(kept.spider).update(page=12, rank=5, todo=[])
    stored = kept.checkpoint()
    for run in ("b", "c"):
        again = Kept(Plain(rank=1, todo=[]), stored).open()
        assert (again.spider.page, again.memory.awaits_start) == (12, True)
        started(again, run)
        assert again.checkpoint() == stored, "it may still be restored"
        assert again.memory.start_began()
        found = [vars(again.spider)[name] for name in ("page", "rank", "run", "todo")]
        assert found == [12, 5, run, []]
        assert not again.memory.awaits_start
        stored = again.checkpoint()


def test_what_a_start_has_set_that_did_not_end_is_its_own() -> None:
    kept = Kept(Plain()).open()
    vars(kept.spider).update(page=1)
    kept.memory.start_began()
    vars(kept.spider).update(page=12)
    again = Kept(Plain(), kept.checkpoint(), started=False).open()
    assert (again.spider.page, again.memory.awaits_start) == (12, False)
    vars(again.spider).update(page=1)
    again.memory.start_began()
    assert again.spider.page == 1


def test_values_that_components_set_when_the_spider_opens_are_not_of_a_callback() -> (
    None
):
    """AutoThrottle reads spider.download_delay, and sets it."""
    spider: Any = Plain(download_delay=0.5)
    kept = Kept(spider)
    spider.download_delay = 5.0
    assert not kept.open().checkpoint()


def test_a_checkpoint_before_the_spider_is_open_keeps_what_is_stored() -> None:
    spider: Any = Plain()
    kept = Kept(spider).open()
    spider.pages.append(1)
    stored = kept.checkpoint()
    again = Kept(Plain(), stored)
    assert again.checkpoint() == stored
    assert again.open().spider.pages == [1]


@pytest.mark.parametrize("kind", [set, frozenset])
def test_sets_are_the_same_in_whatever_order_their_values_come(kind: Any) -> None:
    one, other = kind([0, 8]), kind([8, 0])  # which have the same place in its table
    assert [*one] != [*other]
    assert _packed([one]) == _packed([other])
    assert _packed({1}) != _packed({True}) != _packed({2})


def test_a_store_decides_neither_on_files_nor_on_code_nor_for_scrapy() -> None:
    names = ("crawler", "settings", "category", "parse", "host", "__class__", "ticket")
    value = (b"", pack(["../../keys"]), None, b"")
    record = pack(dict.fromkeys(names, value))
    planted = {ATTRIBUTES: record}
    again = Kept(Plain(), planted, places={"category"}).open().spider
    assert vars(again).keys() & {*names} == {"ticket"}


def test_a_new_round_replaces_them() -> None:
    spider: Any = Plain()
    kept = Kept(spider).open()
    vars(spider).update(ticket="t")
    again = Kept(Plain(), kept.checkpoint(), resumed=False)
    assert changes_of(again.prepare())[ATTRIBUTES] is None
    assert "ticket" not in vars(again.open().spider)


def test_attributes_that_are_too_large_are_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By itself, or, if all together are, the largest."""
    spider: Any = Plain()
    kept = Kept(spider).open()
    vars(spider).update(text="x" * 1_000_001, numbers=[0] * (MOST_PARTS + 1))
    vars(spider).update(a="x" * 400_000, b="x" * 500_000, c="x" * 300_000)
    again = vars(kept.resumed(Plain()))
    kept.prepare()
    assert again.keys() & {"text", "numbers", *"abc"} == {*"ac"}
    for name in ("text", "numbers", "b"):
        assert caplog.text.count(f"attribute {name} of the spider is too large") == 1
    assert caplog.text.count("too large") == 3


def test_after_a_refused_commit_the_spider_remembers_what_it_did_before() -> None:
    spider: Any = Plain(known={"a"})
    kept = Kept(spider)
    kept.memory.read_again()  # before the spider is open
    kept.open()
    spider.known.add("b")
    kept.checkpoint()
    spider.known.add("c")
    spider.further = 1
    kept.memory.read_again()
    assert spider.known == {"a", "b"}
    assert not hasattr(spider, "further")
    kept.stored = {}
    kept.memory.read_again()
    assert spider.known == {"a"}


def test_a_worker_that_does_not_lead_remembers_by_itself() -> None:
    spider: Any = Plain(state={"n": 1})
    kept = Kept(spider).open()
    kept.frontier.leads = False
    spider.pages.append(1)
    part = kept.prepare()
    assert not changes_of(part)
    part.done()
    spider.pages.append(2)
    spider.state["n"] = 2
    kept.stored = {STATE: b"of the leader"}
    kept.memory.read_again()
    assert (spider.pages, spider.state) == ([1], {"n": 1})
    kept.frontier.leads = True
    assert all(changes_of(kept.prepare()).values())
    assert changes_of(kept.prepare()).keys() == {STATE, ATTRIBUTES}


def test_the_next_leader_remembers_what_it_has_not_changed_itself() -> None:
    spider: Any = Plain(state={"n": 1})
    kept = Kept(spider).open()
    spider.pages.append(1)
    spider.ticket = "t"
    stored = kept.checkpoint()
    spider = Plain(state={})
    kept = Kept(spider, started=False).open()
    spider.pages.append(2)
    kept.stored = stored
    kept.memory.take_over()
    assert (spider.state, spider.ticket, spider.pages) == ({"n": 1}, "t", [2])
    assert changes_of(kept.prepare()).keys() == {ATTRIBUTES}


# spider.state


def test_a_change_of_the_state_is_seen_until_it_is_stored() -> None:
    state: dict[str, Any] = {
        "ids": {"a", "b"}, "n": 1, "deep": [{"x": [1, 2]}],
        "order": OrderedDict(a=1, b=2), "groups": defaultdict(list, {"a": [1]}),
    }  # fmt: skip
    kept = Kept(Plain(state=state))
    kept.checkpoint()
    changed = [kept.memory.changed]
    state["n"] = True
    state["order"].move_to_end("a")
    kept.prepare()  # of a checkpoint that fails
    changed.append(kept.memory.changed)
    stored = kept.checkpoint()
    assert [*changed, kept.memory.changed] == [False, True, False]
    found = Kept(Plain(), stored, attributes=False).spider.state
    assert repr(found["order"]) == repr(state["order"])
    assert (found, type(found["n"])) == (state, bool)


def test_a_state_that_is_gone_or_cannot_be_stored_is_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spider: Any = Plain(state={"n": 1})
    kept = Kept(spider)
    for state in (None, {"n": object()}, {"n": object()}):
        spider.state = {"n": 1}
        assert kept.checkpoint()
        spider.state = state
        assert not kept.checkpoint()
    assert caplog.text.count("spider.state cannot be stored") == 1
