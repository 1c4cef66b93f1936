"""Cookies that are written with a checkpoint, and come back in the next run."""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from http.cookiejar import Cookie
from http.cookiejar import CookieJar as PlainJar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.http import FormRequest, Response
from scrapy.http.cookies import CookieJar

from bloomdupe import BloomFilter
from bloomdupe.cli import main as cli
from bloomdupe.crawl.state.cookies import Cookies, without_cookie_header
from bloomdupe.errors import EngineError
from bloomdupe.inside_scrapy.cookie_jars import CookieJars
from bloomdupe.store.format import BLOBS, COOKIES
from bloomdupe.store.lmdb.check import verify
from bloomdupe.store.lmdb.lmdb_store import LmdbStore
from bloomdupe.store.store import Part

URL = "http://www.a.example/x/y"


def engine_with(store: LmdbStore, *, is_shared: bool = False) -> Any:
    """Return what cookies need of an engine."""
    return SimpleNamespace(
        frontier=SimpleNamespace(store=store, leads=True),
        settings=SimpleNamespace(is_shared=is_shared),
        run=SimpleNamespace(resumed=True),
    )


class Crawl:
    """Scrapy's middleware, and the cookies of a store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.open()

    def open(self) -> None:
        self.filter = BloomFilter.open(self.path, 1000, 1e-3)
        assert isinstance(self.filter.store, LmdbStore)
        self.store = self.filter.store
        self.middleware = CookiesMiddleware()
        self.jars = CookieJars(self.middleware)
        self.cookies = Cookies(engine_with(self.store), self.jars)

    def answer(self, *headers: str | bytes, url: str = URL, **meta: Any) -> None:
        """Let a response with these Set-Cookie headers come in."""
        request = Request(url, meta=meta)
        response = Response(url, headers={"Set-Cookie": list(headers)})
        self.middleware.process_response(request, response)

    def sent(self, url: str = URL, **meta: Any) -> set[str]:
        """Return the cookies that a request is sent with."""
        request = Request(url, meta=meta)
        self.middleware.process_request(request)
        header = (request.headers.get("Cookie") or b"").decode()
        return set(header.split("; ")) - {""}

    def checkpoint(self) -> tuple[int, int]:
        """Write one; return how many cookies were put and removed."""
        part = self.cookies.prepare()
        changes = part.changes[COOKIES]
        deleted = sum(value is None for value in changes.values())
        self.store.commit(part)
        return len(changes) - deleted, deleted

    @property
    def stored(self) -> int:
        return self.store.now.entries(COOKIES)

    def close(self) -> None:
        self.filter.close()


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Crawl]:
    crawl = Crawl(tmp_path / "store")
    yield crawl
    crawl.close()


def again(crawl: Crawl) -> Crawl:
    """Open the store as the next run does."""
    crawl.close()
    crawl.open()
    return crawl


def test_a_cookie_comes_back_with_all_it_is_made_of(crawl: Crawl) -> None:
    crawl.answer(
        "n=v; Domain=a.example; Path=/x; Secure; HttpOnly; Max-Age=1000",
        b"session=\xc3\xa4\xff",
        "novalue",
        "=noname",
        "old=1; Version=1; Comment=c; Port=80",
    )
    before = [vars(cookie) for cookie in crawl.middleware.jars[None].jar]
    assert len(before) > 3
    crawl.checkpoint()
    again(crawl)
    assert not crawl.cookies.changed
    found = [vars(cookie) for cookie in crawl.middleware.jars[None].jar]
    for cookie in found:
        cookie.pop("on_change", None)
    by_name = sorted(found, key=lambda cookie: str(cookie["name"]))
    assert by_name == sorted(before, key=lambda cookie: str(cookie["name"]))


def test_cookies_between_prepare_and_done_belong_to_the_next_checkpoint(
    crawl: Crawl,
) -> None:
    """Only changed cookies are written, and those that a failed checkpoint lacks."""
    crawl.answer("a=1", "b=1")
    crawl.cookies.prepare()  # and the checkpoint fails
    part = crawl.cookies.prepare()
    assert len(part.changes[COOKIES]) == 2
    crawl.answer("a=2", "c=1")
    crawl.store.commit(part)
    assert {place.name for place in crawl.jars.changed} == {"a", "c"}
    assert crawl.checkpoint() == (2, 0)
    assert again(crawl).sent() == {"a=2", "b=1", "c=1"}


@pytest.mark.parametrize(
    "remove",
    [
        lambda middleware: middleware.jars[None].clear(),
        lambda middleware: middleware.jars.pop(None),
        lambda middleware: middleware.jars.__setitem__(None, CookieJar()),
        lambda middleware: middleware.jars.__ior__({None: CookieJar()}),
        lambda middleware: setattr(middleware, "jars", defaultdict(CookieJar)),
    ],
)
def test_code_that_reaches_for_the_jars_is_seen(crawl: Crawl, remove: Any) -> None:
    crawl.answer("b=1", cookiejar="other")
    crawl.answer("a=1")
    crawl.checkpoint()
    left = crawl.middleware.jars[None]
    remove(crawl.middleware)
    assert crawl.checkpoint() == (0, 2 - len(crawl.middleware.jars.get("other", ())))
    if crawl.middleware.jars.get(None) is not left:
        left.set_cookie(cookie_named("late"))
    assert not crawl.cookies.changed
    again(crawl)
    assert crawl.sent() == set()
    assert len(crawl.sent(cookiejar="other")) == crawl.stored


def cookie_named(name: str) -> Cookie:
    return Cookie(
        0, name, "v", None, False, "www.a.example", False, False, "/", True, False,
        None, True, None, None, {},
    )  # fmt: skip


def test_expired_cookies_do_not_come_back(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl.answer("b=1", "a=1; Max-Age=1000")
    assert crawl.checkpoint() == (2, 0)
    later = time.time() + 1001
    monkeypatch.setattr(time, "time", lambda: later)
    again(crawl)
    assert crawl.sent() == {"b=1"}
    assert crawl.checkpoint() == (0, 1)
    assert crawl.stored == 1


def test_other_jars_are_refused() -> None:
    class Plain(CookiesMiddleware):
        def __init__(self) -> None:
            self.jars = defaultdict(PlainJar)  # type: ignore[arg-type]

    with pytest.raises(EngineError, match=r"CookieJar\.jar as Scrapy"):
        CookieJars(Plain())
    middleware = CookiesMiddleware()
    del middleware.jars
    middleware.jars = [CookieJar()]  # type: ignore[assignment]
    with pytest.raises(EngineError, match=r"CookiesMiddleware\.jars"):
        CookieJars(middleware)


class Unknown:
    def __repr__(self) -> str:
        return "secret-repr"


def test_jars_that_cannot_be_stored_are_named_once(
    crawl: Crawl, caplog: pytest.LogCaptureFixture
) -> None:
    for key in (Unknown(), Unknown()):
        crawl.answer("session=secret-value", cookiejar=key)
    crawl.answer("a=1")
    assert crawl.checkpoint() == (1, 0)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "the key of their jar, a test_cookies.Unknown" in record.getMessage()
    assert "secret" not in caplog.text
    assert not crawl.cookies.changed


def test_workers_share_cookies_and_know_which_are_gone(crawl: Crawl) -> None:
    shares = []
    for _ in "ab":
        middleware = CookiesMiddleware()
        jars = CookieJars(middleware)
        shares.append(Cookies(engine_with(crawl.store, is_shared=True), jars))
        crawl.middleware = middleware
        crawl.answer(f"own{len(shares)}=1", "login=1" if len(shares) == 1 else "x=1")
        crawl.store.commit(shares[-1].prepare())
    mine, others = shares
    others.take(mine.stored(), 7)
    assert others.version == 7
    assert crawl.sent() == {"own1=1", "own2=1", "x=1", "login=1"}
    crawl.answer("login=2", "x=; Max-Age=0")
    others.take(mine.stored(), 8)
    assert "login=2" in crawl.sent(), "it has changed here since"
    crawl.store.commit(others.prepare())
    mine.take(others.stored(), 9)
    names = {cookie.name: cookie.value for cookie in mine._jars._middleware.jars[None]}
    assert names == {"own1": "1", "own2": "1", "login": "2"}


# The header of a request that is sent again


class Product(FormRequest):
    """Takes other arguments than a plain request, and counts how often it is made."""

    made = 0

    def __init__(self, number: int) -> None:
        super().__init__(
            f"{URL}/{number}", formdata={"a": "b"}, headers={"Cookie": "s=1", "A": "b"}
        )
        Product.made += 1


def test_the_header_is_not_stored_where_it_is_made_anew() -> None:
    plain = Request(URL, headers={"A": "b"})
    assert without_cookie_header(plain) is plain
    sent = Product(7)
    stored = without_cookie_header(sent)
    assert (type(stored), Product.made) == (Product, 1), "no constructor runs"
    assert sent.headers["Cookie"] == b"s=1"
    assert "Cookie" not in stored.headers
    assert (stored.url, stored.body, stored.headers["A"]) == (sent.url, b"a=b", b"b")
    sent.meta["dont_merge_cookies"] = True
    assert without_cookie_header(sent) is sent


# Backups


def blob(number: int) -> Part:
    value = b"x" * (2100 + number)
    return Part(changes={BLOBS: {f"x{number}".encode(): value}})


@pytest.fixture
def churned(crawl: Crawl) -> Crawl:
    """Return a crawl that had many cookies, in many transactions."""
    for n in range(120):
        for host in range(n % 7, 60, 7):
            url = f"http://h{host}.example/"
            crawl.answer(f"s{n % 5}=secret-{n}-{'x' * (7 * n % 90)}", url=url)
            if n % 11 == 3:
                crawl.answer(f"s{n % 5}=; Max-Age=0", url=url)
        crawl.filter.update(f"http://h{n}.example/{i}" for i in range(5))
        crawl.filter.checkpoint()
        crawl.checkpoint()
        # Ends of pages that nothing is written to.
        crawl.store.commit(blob(n))
    assert crawl.stored > 100
    return crawl


def secrets_in(store: Path) -> int:
    return sum(
        file.read_bytes().count(b"secret-")
        for file in store.rglob("*")
        if file.is_file()
    )


def test_files_and_messages_keep_cookies_secret(
    churned: Crawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A backup has no byte of them, unless it was asked for."""
    stored = churned.stored
    churned.close()
    store = str(churned.path)
    assert secrets_in(churned.path) > stored, "also of cookies that were removed"
    for verb in (["info"], ["verify"], ["backup"]):
        target = [str(tmp_path / verb[0])] if verb[0] == "backup" else []
        assert cli.main([*verb, store, *target, "--json"]) == 0
        assert cli.main([*verb, store, *(t + "2" for t in target)]) == 0
    out, err = capsys.readouterr()
    assert "secret" not in out + err
    assert f"{stored} cookies are left out" in out
    told = tmp_path / "told"
    assert cli.main(["backup", store, str(told), "--with-cookies", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cookies_left_out"] == 0
    assert secrets_in(told) >= stored
    for copy_, cookies in ((tmp_path / "backup", 0), (told, stored)):
        assert bool(secrets_in(copy_)) == bool(cookies)
        report = verify(copy_)
        assert report.problems == []
        assert report.counts.get("cookies", 0) == cookies
        with BloomFilter.open(copy_) as seen:
            assert len(seen) == 600
            assert "http://h7.example/3" in seen
