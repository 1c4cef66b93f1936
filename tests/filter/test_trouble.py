"""What is refused, and a server in trouble: clear errors, and nothing half done."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from support.cutting import Cutting
from support.ports import kept_port
from support.redis_server import LOGGED, RedisServer
from support.shared_data import needs_program
from support.waiting import DEADLINE

from bloomdupe import BloomFilter
from bloomdupe.errors import (
    SettingError,
    StoreAccessError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreMismatchError,
    StoreUnreachableError,
)
from bloomdupe.store.redis.address import Address

PASSWORD = "open-sesame"  # noqa: S105 - of a server that lives for a test
KEYS = [f"https://www.example/{number}" for number in range(3_000)]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a short name, as a socket needs it."""
    return tmp_path_factory.mktemp("r")


# The URL


@pytest.mark.parametrize(
    ("url", "shown", "head"),
    [
        ("redis://host:6379/0#seen", "redis://host:6379/0#seen", "bloomdupe:{seen}"),
        ("rediss://me:pw@host#a", "rediss://me@host#a", "bloomdupe:{a}"),
        ("redis://:pw@[::1]:7/2#a b", "redis://[::1]:7/2#a b", "bloomdupe:{a b}"),
        ("unix:///s?password=pw#a%20b", "unix:///s#a%20b", "bloomdupe:{a b}"),
    ],
)
def test_a_url_names_server_and_filter(url: str, shown: str, head: str) -> None:
    address = Address.of(url)
    assert address.shown == shown
    assert address.head == head
    assert "#" not in address.server


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://:open-sesame@host:6379/0", "must end in the name of the filter"),
        ("redis://:open-sesame@host/0#a{b}", "must have no braces"),
        ("redis://:open-sesame@host:port#a", "cannot be read"),
        ("redis://:12#open-sesame@host/0#a", "In a password, / "),
        ("Redis://:open-sesame@host/0#a", "must specify one of the following schemes"),
        ("redis://:open-sesame@host?decode_responses=1#a", "pages are bytes"),
    ],
)
def test_a_url_that_cannot_be_used(url: str, message: str) -> None:
    with pytest.raises(SettingError, match=message) as raised:
        BloomFilter.open(url, 100)
    assert PASSWORD not in str(raised.value)


# Another filter than the one asked for

OTHER_HASH = json.dumps({"hash": "md5", "written_by": "another version"})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"capacity": 2_000}, r"capacity = 1000, but capacity = 2000 is asked for"),
        ({"identity": {"spider": "b"}}, r"spider = 'a', but spider = 'b'"),
        ({"exact": True}, r"exact: .* leave exact out"),
    ],
)
def test_other_parameters_are_refused(
    url: str, asked: dict[str, Any], message: str
) -> None:
    for readonly, expected in ((False, "; give a capacity"), (True, r"$")):
        with pytest.raises(StoreError, match=f"no filter of this name{expected}"):
            BloomFilter.open(url, readonly=readonly)
    with pytest.raises(SettingError, match=r"bytes, but there are .* of memory at"):
        BloomFilter.open(url, 10**13)
    BloomFilter.open(url, 1_000, identity={"spider": "a"}).close()
    with pytest.raises((StoreMismatchError, SettingError), match=message) as raised:
        BloomFilter.open(url, **asked)
    assert url in str(raised.value)
    BloomFilter.open(url, 1_000, 1e-6, identity={"spider": "a"}).close()


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        (("SET", "HEAD", "x"), StoreMismatchError, "something else than a filter"),
        (("HSET", "HEAD", "format", "2"), StoreMismatchError, "has format 2"),
        (("HSET", "HEAD", "layer:0", "{"), StoreDamagedError, "not as it was written"),
        (("HSET", "HEAD", "header", OTHER_HASH), StoreMismatchError, "hash = 'md5'"),
    ],
)
def test_keys_of_other_programs_are_refused(
    server: RedisServer,
    name: str,
    command: tuple[str, ...],
    error: type[Exception],
    message: str,
) -> None:
    head = f"bloomdupe:{{{name}}}"
    with server.client() as other:
        if "something else" not in message:
            BloomFilter.open(server.url(name), 100).close()
        other.execute_command(*(head if word == "HEAD" else word for word in command))
        before = other.execute_command("DUMP", head)
        for capacity in (None, 100):
            with pytest.raises(error, match=message):
                BloomFilter.open(server.url(name), capacity)
        assert other.execute_command("DUMP", head) == before


def test_a_filter_that_is_deleted_while_in_use(server: RedisServer, name: str) -> None:
    """Its pages, which are left, are not taken for those of the next filter."""
    url = server.url(name)
    with BloomFilter.open(url, 1_000) as seen, server.client() as other:
        seen.update(KEYS[:100])
        other.delete(f"bloomdupe:{{{name}}}")
        uses: list[Callable[[], object]] = [
            lambda: seen.add("a"),
            lambda: "a" in seen,
            lambda: len(seen),
        ]
        for use in uses:
            with pytest.raises(StoreError, match="the filter is gone"):
                use()
        with BloomFilter.open(url, 1_000, key=seen.parameters.key) as anew:
            assert anew.update(KEYS[:100]) == 100
        with BloomFilter.open(url, 1_000) as same_name:
            assert not seen.add(KEYS[0])  # it has the same key, so it is the same
            other.delete(f"bloomdupe:{{{name}}}")
            BloomFilter.open(url, 1_000).close()
            with pytest.raises(StoreMismatchError, match="another filter has been mad"):
                same_name.add("a")


# The server


def test_a_password_and_a_server_that_evicts_keys(folder: Path) -> None:
    evicting = ("--maxmemory-policy", "allkeys-lru")
    with (
        RedisServer(folder, *evicting) as server,
        pytest.raises(StoreMismatchError, match=r"allkeys-lru.* noeviction"),
    ):
        BloomFilter.open(server.url("seen"), 100)
    with RedisServer(folder, "--requirepass", PASSWORD) as server:
        for url in (
            f"unix://{server.socket}?password={PASSWORD}x#seen",
            f"unix://somebody:{PASSWORD}@{server.socket}#seen",
        ):
            with pytest.raises(StoreAccessError, match="check user and") as raised:
                BloomFilter.open(url, 100)
            assert str(server.socket) in str(raised.value)
            assert PASSWORD not in str(raised.value)
        with BloomFilter.open(f"unix://:{PASSWORD}@{server.socket}#a", 100) as seen:
            assert seen.add("a")
            assert PASSWORD not in str(seen.info())


def test_the_rights_that_a_user_needs(server: RedisServer, name: str) -> None:
    """The list is that of bloomdupe/docs/redis.md."""
    allowed = (
        "+info +hgetall +evalsha +eval +exists +hset +hget +hmget"
        " +hincrby +hdel +bitfield +getbit +unlink"
    )
    with server.client() as other:
        other.execute_command(
            "ACL", "SETUSER", "us", "on", ">pw", "~bloomdupe:*", *allowed.split()
        )
        url = f"unix://us:pw@{server.socket}#{name}"
        with BloomFilter.open(url, 100) as seen:
            seen.update(KEYS)
            assert seen.info().keys == len(KEYS)
            assert all(seen.contains_many(KEYS))
            seen.clear()
            for command in ("bitfield", "hincrby"):
                other.execute_command("ACL", "SETUSER", "us", f"-{command}")
                with pytest.raises(StoreAccessError, match="rights of the user"):
                    seen.update(KEYS)
                assert not any(seen.contains_many(KEYS))
                other.execute_command("ACL", "SETUSER", "us", f"+{command}")
            other.execute_command("ACL", "SETUSER", "us", "-info")
            with pytest.raises(StoreAccessError, match="rights of the user"):
                BloomFilter.open(url)


def test_tls(folder: Path) -> None:
    certificate, key = folder / "certificate", folder / "key"
    command = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
        f" subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    )
    openssl = needs_program("openssl")
    subprocess.run([openssl, *command.split()], check=True, capture_output=True)
    port = kept_port()
    words = (
        f"--tls-port {port} --tls-cert-file {certificate} --tls-key-file {key}"
        f" --tls-auth-clients no --tls-ca-cert-file {certificate}"
    ).split()
    with RedisServer(folder, *words):
        known = f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificate}#seen"
        with BloomFilter.open(known, 100) as seen:
            assert seen.update(KEYS) == len(KEYS)
        for url in (f"rediss://127.0.0.1:{port}#seen", known.replace("diss:", "dis:")):
            plain = url.replace(f"?ssl_ca_certs={certificate}", "")
            with pytest.raises(StoreUnreachableError, match="no Redis answers"):
                BloomFilter.open(plain)


def test_memory_that_fills_up_on_the_way(folder: Path) -> None:
    """A step that has begun ends: no key is marked without being returned as new."""
    told: list[bool] = []

    def add_all(seen: BloomFilter) -> None:
        for begin in range(0, 3_000, 50):
            told.extend(seen.add_many(KEYS[begin : begin + 50]))

    with (
        RedisServer(folder) as server,
        server.client() as other,
        BloomFilter.open(server.url("seen"), 1_000_000) as seen,
    ):
        limit = other.info("memory")["used_memory"] + 2_000_000
        other.config_set("maxmemory", limit)
        with pytest.raises(StoreFullError):
            add_all(seen)
        assert 0 < len(told) < 3_000
        assert len(seen) == told.count(True) == len(told)
        known = seen.contains_many(KEYS)
        assert known == [True] * len(told) + [False] * (3_000 - len(told))


@pytest.mark.parametrize("how", ["cut", "silent"])
def test_a_batch_whose_answer_is_lost_is_not_sent_again(
    server: RedisServer, name: str, how: str
) -> None:
    """Sent again, it would find its own marks, and call all keys seen."""
    between = Cutting(server)
    url = f"redis://127.0.0.1:{between.port}?retry_on_timeout=1#{name}"
    seen: Any
    with BloomFilter.open(url, 1_000) as seen, server.client() as judge:
        seen.update(KEYS[:10])
        judge.config_resetstat()
        between.lose(how, seen._client._redis)
        with pytest.raises(StoreUnreachableError, match="no Redis answers"):
            seen.add_many(KEYS[10:20])
        between.until_lost()
        assert judge.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
        assert seen.add_many(KEYS[:30]) == [False] * 20 + [True] * 10
        # The control: a client that is left to itself does send again.
        judge.delete("counter")
        with redis.Redis(port=between.port) as other:
            other.ping()
            between.lose(how, other)
            assert other.incr("counter") == 2
    between.close()


def test_a_server_that_is_killed_while_keys_are_added(folder: Path) -> None:
    """Every key that was answered is there; the counts agree with the bits."""
    with (
        RedisServer(folder, *LOGGED) as server,
        BloomFilter.open(server.url("seen"), 500, 1e-9) as seen,
    ):
        added: list[int] = []
        enough = threading.Event()

        def add() -> None:
            with suppress(StoreUnreachableError):
                for begin in range(0, 10**9, 50):
                    numbers = range(begin, begin + 50)
                    seen.update(map(str, numbers))
                    added.extend(numbers)
                    if begin == 2_000:
                        enough.set()

        thread = threading.Thread(target=add)
        thread.start()
        assert enough.wait(DEADLINE)
        server.kill()
        thread.join()
        server.start()
        assert all(seen.contains_many(map(str, added)))
        further = range(len(added), len(added) + 50)
        part = seen.contains_many(map(str, further)).count(True)
        assert len(seen) == len(added) + part


def test_a_server_that_has_forgotten_everything(folder: Path) -> None:
    """Nothing is called new in silence by a filter that has lost its marks."""
    with (
        RedisServer(folder) as server,
        BloomFilter.open(server.url("seen"), 500) as seen,
    ):
        seen.update(KEYS)
        server.kill()
        server.start()
        with pytest.raises(StoreError, match="Redis was started without its data"):
            seen.add(KEYS[0])
