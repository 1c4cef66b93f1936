"""Metrics for Prometheus: in a crawl, by its own parser, and by its own rules."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from spiders.follow import Follow
from support.crawl import Crawl
from support.monitored_jobs import point
from support.ports import kept_port
from support.shared_data import REPOSITORY
from support.site import Site
from support.waiting import DEADLINE

from bloomdupe import __version__
from bloomdupe.crawl.progress.metrics import Metrics

BOARD = REPOSITORY / "bloomdupe" / "monitoring" / "grafana.json"

STOOD: dict[str, Any] = {
    **point(0, pages=40, items=30, pending=7, loss=0.5)._asdict(),
    "bytes": 0,
    "responses": {"2xx": 36, "4xx": 4},
    "capacity": 1_000,
    "checkpoint_at": 1_700_000_000.0,
    "to_go": 226.0,
    "next_due": 1_700_000_060.0,
    "failures": {"404": 3, "callback": 1},
    "retries": 5,
    "revisits": 6,
    "host_pending": {"a.example": 5, "b.example": 2},
    "host_pages": {"a.example": 30, "b.example": 10},
    "host_backing_off": {"a.example": 1, "b.example": 0},
}


@pytest.fixture
def metrics() -> Iterator[str]:
    """Answer on a free port; return the URL."""
    found = Metrics('a "spider"\n', "crawls/site")
    found.figures = STOOD
    port = found.begin("127.0.0.1", 0)
    yield f"http://127.0.0.1:{port}/metrics"
    found.end()


def read(url: str, accept: str = "*/*") -> str:
    request = Request(url, headers={"Accept": accept})  # noqa: S310 - on loopback
    with urlopen(request, timeout=DEADLINE) as answer:  # noqa: S310 - a URL of this test
        text: str = answer.read().decode()
    return text


def test_a_crawl_answers_while_it_runs(crawl: Crawl, site: Site) -> None:
    site.hold("/a")
    settings: dict[str, Any] = {"BLOOMDUPE_METRICS": kept_port()}
    process = crawl.start(Follow, BLOOMDUPE_PROGRESS_INTERVAL=0.05, **settings)
    process.until_requested("/a")
    said = r"Metrics for Prometheus: (http://127\.0\.0\.1:\d+/metrics)"
    (url,) = re.findall(said, process.log)
    checkpoint = 'bloomdupe_last_checkpoint_timestamp_seconds{spider="follow"} 1'
    process.until(lambda: checkpoint in read(url))
    text = read(url)
    site.release()
    assert process.wait().finish_reason == "finished"
    assert 'bloomdupe_pages_total{spider="follow"}' in text
    assert 'bloomdupe_expected_urls{spider="follow"} 1e+07' in text
    assert f'bloomdupe_info{{jobdir="{crawl.store.parent}"' in text


def test_it_is_open_metrics(metrics: str) -> None:
    text = read(metrics, "application/openmetrics-text")
    assert text.endswith("# EOF\n")
    families = list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    values = {
        (sample.name.removeprefix("bloomdupe_"), *labels.values()): sample.value
        for family in families
        for sample in family.samples
        for labels in [{k: v for k, v in sample.labels.items() if k != "spider"}]
    }
    expected = {
        ("pages_total",): 40,
        ("responses_total", "2xx"): 36,
        ("responses_total", "4xx"): 4,
        ("lost",): 0.5,
        ("last_checkpoint_timestamp_seconds",): 1_700_000_000.0,
        ("next_due_timestamp_seconds",): 1_700_000_060.0,
        ("time_to_go_seconds",): 226.0,
        ("failures", "404"): 3,
        ("failures", "callback"): 1,
        ("retries_total",): 5,
        ("revisits_total",): 6,
        ("host_pending", "a.example"): 5,
        ("host_pages_total", "b.example"): 10,
        ("host_backing_off", "a.example"): 1,
        ("host_backing_off", "b.example"): 0,
        ("info", "crawls/site", __version__): 1,
    }
    assert expected.items() <= values.items()
    assert {s.labels["spider"] for f in families for s in f.samples} == {'a "spider"\n'}


def test_the_dashboard_and_the_alerts_use_existing_metrics(metrics: str) -> None:
    board = json.loads(BOARD.read_text("utf-8"))
    files = (BOARD, BOARD.with_name("alerts.yml"))
    asked = {
        n for f in files for n in re.findall(r"bloomdupe_\w+", f.read_text("utf-8"))
    }
    given = set(re.findall(r"^(bloomdupe_\w+)\{", read(metrics), re.MULTILINE))
    assert asked <= given
    places = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(places) == len(set(places)) == 24 * (max(y for _, y in places) + 1)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_a_port_that_is_taken_is_named_and_the_crawl_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = Metrics("spider", "")
        assert found.begin("127.0.0.1", port) is None
        found.end()
        assert f"BLOOMDUPE_METRICS: the port {port} cannot be opened" in caplog.text
    assert "already in use" in caplog.text
