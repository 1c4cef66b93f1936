"""A crawl is reset: all its keys are removed, and no other; also on a Cluster."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import redis
from support.redis_server import RedisServer
from support.standing_crawl import PARTITIONS, StandingCrawl, lines_of_start

from bloomdupe import BloomFilter
from bloomdupe.cli.main import main
from bloomdupe.errors import StoreError, StoreFullError
from bloomdupe.redis.frontier_header import header_of
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.redis.partition import SeenMark, Settled
from bloomdupe.redis.server import Server
from bloomdupe.redis.shared_frontier import SharedFrontier
from bloomdupe.store.redis.address import Address


def crawl_at(url: str) -> None:
    """Leave a crawl with all kinds of keys, on which no worker runs any more."""
    crawl = StandingCrawl(url)
    crawl.fill(20, 30)
    crawl.offer(lines_of_start(b"0 line"))
    crawl.lease("one", 50)
    crawl.settle("one", 20)
    one = crawl.workers["one"]
    one.news.keep([(b"digest", b"cookie")])
    lease = crawl.leased["one"][0]
    one.settle([Settled(lease, left=lease.payload, reason="the reason")])
    crawl.close()


def filter_at(url: str) -> None:
    with BloomFilter.open(url, 100) as seen:
        seen.add("a")


@pytest.mark.parametrize("name", ["site", "a*[b]?", "a b"])
def test_all_keys_of_a_crawl_are_removed_and_no_other(
    server: RedisServer, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [f"{name}x", f"{name}:x", f"{name}:{PARTITIONS}", name.replace("*", "x")]
    with server.client() as client:
        client.flushall()
        for other in others[:3] + others[3:] * (name != others[3]):
            filter_at(server.url(other))
        client.set("bloomdupe:{" + name, "no key of ours")
        client.set(name, "likewise")
        expected = set(client.keys())
        url = server.url(name)
        crawl_at(url)
        assert {b"aside", b"news", b"order", b"output"} <= {
            key.rpartition(b":")[2] for key in client.scan_iter()
        }
        assert main(["reset", url, "--yes"]) == 0
        assert set(client.keys()) == expected
    answer = capsys.readouterr().out
    assert "stopped, 601 URLs seen, " in answer
    assert "20 done, " in answer


def test_a_crawl_on_a_cluster_is_removed(nodes: list[RedisServer]) -> None:
    url = f"redis://127.0.0.1:{nodes[0].port}"
    filter_at(f"{url}#sites")
    with redis.RedisCluster.from_url(url) as judge:
        before = set(judge.scan_iter())
        crawl_at(f"{url}#site")
        assert main(["reset", f"{url}#site", "--yes"]) == 0
        assert set(judge.scan_iter()) == before


def test_nothing_is_removed_unasked_or_while_workers_run(
    server: RedisServer,
    url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    crawl_at(url)
    with server.client() as client, (tmp_path / "nobody").open("w+") as nobody:
        before = client.dbsize()
        monkeypatch.setattr("sys.stdin", nobody)
        assert main(["reset", url]) == 2
        assert "There is no terminal to confirm it" in capsys.readouterr().err
        with SharedFrontier.open(url) as worker:
            worker.tend()
            during = client.dbsize()
            assert main(["reset", url, "--yes"]) == 1
            assert "workers are there (1), which would lose" in capsys.readouterr().err
            assert client.dbsize() == during
        assert client.dbsize() == before


def test_output_and_crawl_are_removed_though_the_memory_is_full(tmp_path: Path) -> None:
    """That makes room."""
    with RedisServer(tmp_path) as server, server.client() as client:
        url = server.url("site")
        crawl_at(url)
        with SharedFrontier.open(url) as worker:
            worker.tend()
            for lease in worker.lease(10):  # each has an entry of its own
                assert worker.settle([(lease, [b"0 line"])]) == []
        client.config_set("maxmemory", "1mb")
        with OpenFrontier.open(url) as frontier:
            with pytest.raises(StoreFullError):
                frontier.mark_seen([SeenMark("host", b"page")])
            last = {line.partition: line.number for line in frontier.outputs()}
            assert sum(frontier.forget(*each) for each in last.items()) > 0
        assert main(["reset", url, "--yes"]) == 0
        assert not client.keys()


def test_a_removal_that_was_interrupted_goes_on(
    server: RedisServer, url: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl_at(url)
    with SharedFrontier.open(url) as late:
        assert late._server.run("remove") == 0
        with server.client() as client:
            client.delete(*client.keys(f"bloomdupe:{{{name}}}:1*"))
        # It began before, and must not believe that it is still there.
        with pytest.raises(StoreError, match="is being removed"):
            late.tend()
        with pytest.raises(StoreError, match="call `bloomdupe reset` again"):
            SharedFrontier.check(url, 10_000, partitions=PARTITIONS, identity={})
    assert main(["reset", url, "--yes"]) == 0
    assert "it cannot be read" in capsys.readouterr().out
    with server.client() as client:
        assert not client.keys(f"bloomdupe:{{{name}*")


def test_a_worker_that_was_stopped_meanwhile_does_not_join_the_new_crawl(
    server: RedisServer, url: str, name: str
) -> None:
    # It believes that it knows which requests are seen.
    with SharedFrontier.open(url, 100, partitions=PARTITIONS) as stopped:
        stopped.tend()
        server.end_leases(name)
        assert main(["reset", url, "--yes"]) == 0
        with SharedFrontier.open(url, 100, partitions=PARTITIONS) as new:
            for call in (stopped.look_around, stopped.tend):
                with pytest.raises(StoreError, match="another crawl has been made"):
                    call()
            new.tend()
            assert len(new.owned) == PARTITIONS


def test_a_worker_that_was_stopped_while_it_began_does_not_join_the_new_crawl(
    server: RedisServer, name: str
) -> None:
    # It has read the header, and not yet its mark.
    url = server.url(name)
    SharedFrontier.open(url, 100, partitions=PARTITIONS).close()
    with closing(Server(Address.of(url))) as stopped:
        header = header_of(stopped, 100, None, PARTITIONS, None, None)
        assert main(["reset", url, "--yes"]) == 0
        SharedFrontier.open(url, 100, partitions=PARTITIONS).close()
        with pytest.raises(StoreError, match="another crawl has been made"):
            SharedFrontier(stopped, header)
