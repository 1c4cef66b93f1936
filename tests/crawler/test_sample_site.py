from __future__ import annotations

import socket
from pathlib import Path

import pytest
from scrapy.exceptions import UsageError
from support.ports import kept_port

from crawler.sample_site import SampleJob, SampleSite, open_port

BASE = "http://localhost:8000/"


def test_the_sample_site_has_every_difficulty() -> None:
    site = SampleSite(100)
    requests = site.expected_requests()
    paths = {path for _, path in requests}
    for path in ("/", "/home", "/new/0", "/chain/0/end", "/files/0.png", "/odd/after"):
        assert path in paths
    assert not [path for path in paths if path.startswith(("/trap", "/private"))]
    assert requests[500, "/flaky/0"] == requests[200, "/flaky/0"] == 1
    assert requests[500, "/broken"] == 3
    assert site.expected_pages(BASE)[BASE + "missing/0"] == 404
    found = {link.href.partition("page")[0] for link in site.answer("/page/7").links}
    assert found > {"/", "../../", "//{host}/", "http://{host}/", "HTTP://{HOST}/"}


def test_a_job_does_not_go_on_while_its_port_is_taken(tmp_path: Path) -> None:
    port = kept_port()
    (tmp_path / "sample-site.port").write_text(f"{port}")
    refused = pytest.raises(UsageError, match=rf"{port}.*sample-site\.port")
    with open_port(port), refused:
        SampleJob.claim(tmp_path)


@pytest.mark.parametrize("content", ["", "65536", "80\n80"])
def test_a_damaged_port_file_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    file = tmp_path / "sample-site.port"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"sample-site\.port is damaged"):
        SampleJob.claim(tmp_path)
    assert file.read_text() == content


def test_a_job_that_died_while_it_noted_its_port_starts_anew(tmp_path: Path) -> None:
    (tmp_path / "sample-site.port.part").touch()
    SampleJob.claim(tmp_path).stop()
    assert [path.name for path in tmp_path.iterdir()] == ["sample-site.port"]


def test_a_port_is_free_again_right_after_a_connection_was_cut() -> None:
    port = kept_port()
    with open_port(port) as listening:  # noqa: SIM117 - the port must be open first
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = listening.accept()
            accepted.close()  # first, as a killed server: this side waits
    open_port(port).close()
