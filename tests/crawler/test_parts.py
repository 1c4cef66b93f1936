"""Hosts, links, options and speed of the sample crawler."""

from __future__ import annotations

import pytest
from scrapy.exceptions import UsageError
from scrapy.http import HtmlResponse
from scrapy.settings import Settings

from crawler import settings as project_settings
from crawler.hosts import folder_name, host_of, is_loopback
from crawler.job import job_name
from crawler.links import extract_links
from crawler.options import Options
from crawler.speed import set_speed

PAGE = "http://example.com/a/b"


# Hosts


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://EXAMPLE.com:443/x", "example.com"),
        ("https://example.com:80/", "example.com:80"),
        ("http://user:word@example.com/", "example.com"),
        ("http://[::1]:8000/", "[::1]:8000"),
        ("ftp://example.com/", None),
        ("/x", None),
        ("http://../x", None),
        ("http://[bad", None),
    ],
)
def test_a_host_is_named_with_its_port_unless_default(
    url: str, host: str | None
) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("example.com:8080", "example.com~8080"),
        ("[::1]:8000", "~5b~3a~3a1~5d~8000"),
        ("../../etc", "~2e.~2f..~2fetc"),
    ],
)
def test_a_folder_name_is_no_path(host: str, name: str) -> None:
    assert folder_name(host) == name


def test_a_job_is_named_after_all_its_hosts_in_any_order() -> None:
    assert job_name(["b.example", "a.example", "b.example"]) == "a.example+b.example"
    assert job_name(["sample"]) == "~sample"  # not the sample site
    with pytest.raises(UsageError, match="-s JOBDIR="):
        job_name([f"host{i}.example" for i in range(50)])


def test_only_this_machine_is_loopback() -> None:
    hosts = ["localhost:8000", "x.localhost", "127.9.9.9", "[::1]:80"]
    assert [
        host for host in [*hosts, "localhost.example", "10.0.0.1"] if is_loopback(host)
    ] == hosts


# Links


def links(html: str, encoding: str = "utf-8") -> list[str]:
    response = HtmlResponse(PAGE, body=html.encode(encoding), encoding=encoding)
    return list(extract_links(response))


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("/c?y=2&x=1", "http://example.com/c?y=2&x=1"),  # as it is, not sorted
        ("c#part", "http://example.com/a/c"),
        ("http://b\u00fccher.example/", "http://xn--bcher-kva.example/"),
    ],
)
def test_a_link_is_written_as_a_browser_does(href: str, url: str) -> None:
    assert links(f'<a href="{href}">x</a>') == [url]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("c/", "http://example.com/a/c/x"),
        ("http://other.example/c/", "http://other.example/c/x"),
        ("http://[bad", "http://example.com/a/x"),
    ],
)
def test_the_base_counts_at_any_place(base: str, url: str) -> None:
    head = f"<head><style>{' ' * 5000}</style><base href='{base}'><base href='/no/'>"
    assert links(head + "<a href='x'>x</a>") == [url]


def test_a_query_is_written_in_the_encoding_of_the_page_if_it_can() -> None:
    assert links("<a href='?\u00e9'>", "latin-1") == [PAGE + "?%E9"]
    assert links("<a href='?&euro;'>", "latin-1") == [PAGE + "?%E2%82%AC"]


# Options


def test_start_urls_and_more_hosts() -> None:
    url = " http://127.0.0.1:1/a\nhttp://localhost/b  http://127.0.0.1:1/a "
    hosts = "A.example, b.example:8080,c.example:443,b\u00fccher.example,"
    options = Options.parse({"url": url, "hosts": hosts})
    assert options.start_urls == ("http://127.0.0.1:1/a", "http://localhost/b")
    others = {"a.example", "b.example:8080", "c.example", "xn--bcher-kva.example"}
    assert options.scope.hosts == {"127.0.0.1:1", "localhost", *others}


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5m", 90), ("12h", 43_200), ("2w", 1_209_600)]
)
def test_pages_come_again_after_a_time(text: str, seconds: float) -> None:
    options = Options.parse({"url": "http://127.0.0.1/", "revisit": text})
    assert options.revisit == seconds


@pytest.mark.parametrize(
    ("option", "text", "remedy"),
    [
        ("url", "//example.com/docs", "did you mean https://example.com/docs ?"),
        ("url", "localhost:8000", "did you mean http://localhost:8000/ ?"),
        ("url", "!", "give a URL such as https://example.com/"),
        ("url", "file:///etc/passwd", "https:// or http://"),
        ("url", "http://[bad", "such as https://example.com/"),
        ("url", "  ", "leave it out"),
        ("url", "http://no-such-host.invalid/", "check its spelling"),
        ("max_pages", "\u0663", "-a max_pages=\u0663 is not"),
        ("revisit", "0d", "-a revisit=0d is no time"),
        ("revisit", "1y", "-a revisit=1y is no time"),
        ("allow", "(docs", "-a allow=(docs is not a regular expression (missing )"),
        ("hosts", "b.example,a.example/x", "such as a.example,b.example:8080"),
        ("maxpages", "3", "no option -a maxpages"),
    ],
)
def test_a_bad_option_is_refused_with_a_remedy(
    option: str, text: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        Options.parse({option: text})
    message = str(caught.value)
    assert "\n" not in message
    assert f"-a {option}" in message
    assert remedy in message


# Speed


def settings_for(*hosts: str, **cmdline: str) -> Settings:
    settings = Settings()
    settings.setmodule(project_settings)
    settings.setdict(cmdline, priority="cmdline")
    set_speed(settings, hosts)
    return settings


def test_a_foreign_host_is_spared_and_this_machine_is_not() -> None:
    spared = settings_for("example.com", "localhost")
    assert spared.getfloat("DOWNLOAD_DELAY") >= 0.5
    assert spared.getbool("AUTOTHROTTLE_ENABLED")
    assert spared.getint("CONCURRENT_REQUESTS_PER_DOMAIN") <= 2
    here = settings_for("localhost:8000", "127.0.0.1")
    assert here.getfloat("DOWNLOAD_DELAY") == 0
    assert not here.getbool("AUTOTHROTTLE_ENABLED")
    assert spared.getbool("ROBOTSTXT_OBEY")
    assert here.getbool("ROBOTSTXT_OBEY")


@pytest.mark.parametrize("host", ["localhost", "example.com"])
def test_the_command_line_wins(host: str) -> None:
    settings = settings_for(host, DOWNLOAD_DELAY="7", CONCURRENT_REQUESTS="99")
    assert settings.getfloat("DOWNLOAD_DELAY") == 7
    assert settings.getint("CONCURRENT_REQUESTS") == 99
