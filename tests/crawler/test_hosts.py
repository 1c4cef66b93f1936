from __future__ import annotations

import pytest
from scrapy.exceptions import UsageError

from crawler.hosts import folder_name, host_of, is_loopback
from crawler.job import job_name


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://example.com/", "example.com"),
        ("https://EXAMPLE.com:443/x", "example.com"),
        ("http://example.com:80", "example.com"),
        ("https://example.com:80/", "example.com:80"),
        ("http://example.com:8080/", "example.com:8080"),
        ("http://user:word@example.com/", "example.com"),
        ("http://[::1]:8000/", "[::1]:8000"),
        ("http://a_b.example./", "a_b.example."),
        ("ftp://example.com/", None),
        ("example.com", None),
        ("/x", None),
        ("", None),
        ("http:///x", None),
        ("http://../x", None),
        ("http://.example/", None),
        ("http://a b/", None),
        ("http://a%2fb/", None),
        ("http://b\u00fccher.example/", None),  # not yet IDNA
        ("http://[bad", None),
        ("http://example.com:99999/", None),
        ("http://example.com:x/", None),
        (f"http://{'a.' * 127}example/", None),
    ],
)
def test_a_host_is_named_with_its_port_unless_default(
    url: str, host: str | None
) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("example.com", "example.com"),
        ("example.com:8080", "example.com~8080"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a_b.example.", "a_b.example."),
        ("[::1]", "~5b~3a~3a1~5d"),
        ("[::1]:8000", "~5b~3a~3a1~5d~8000"),
        ("..", "~2e."),
        ("../../etc", "~2e.~2f..~2fetc"),
    ],
)
def test_a_folder_name_is_no_path(host: str, name: str) -> None:
    assert folder_name(host) == name


def test_a_host_called_sample_is_not_the_sample_site() -> None:
    assert job_name(["sample"]) == "~sample"


def test_a_job_is_named_after_all_its_hosts_in_any_order() -> None:
    assert job_name(["b.example", "a.example", "b.example"]) == "a.example+b.example"
    with pytest.raises(UsageError, match="-s JOBDIR="):
        job_name([f"host{i}.example" for i in range(50)])


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("localhost:8000", True),
        ("x.localhost", True),
        ("127.0.0.1:80", True),
        ("127.9.9.9", True),
        ("[::1]:80", True),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("example.com", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
