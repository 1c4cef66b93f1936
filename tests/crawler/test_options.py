from __future__ import annotations

import pytest
from scrapy.exceptions import UsageError

from crawler.options import Options


def refusal(**arguments: str) -> str:
    with pytest.raises(UsageError) as caught:
        Options.parse(arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_url_there_is_no_start() -> None:
    options = Options.parse({})
    assert options.start_urls == ()
    started = options.starting_at("http://localhost:8000/")
    assert started.start_urls == ("http://localhost:8000/",)
    assert started.scope.hosts == {"localhost:8000"}


def test_start_urls_are_separated_by_white_space() -> None:
    url = " http://127.0.0.1:1/a\nhttp://localhost/b  http://127.0.0.1:1/a "
    options = Options.parse({"url": url})
    assert options.start_urls == ("http://127.0.0.1:1/a", "http://localhost/b")
    assert options.scope.hosts == {"127.0.0.1:1", "localhost"}


def test_more_hosts_can_be_followed() -> None:
    hosts = "A.example, b.example:8080,c.example:443,b\u00fccher.example,"
    options = Options.parse({"url": "http://localhost/", "hosts": hosts})
    assert options.scope.hosts == {
        "localhost",
        "a.example",
        "b.example:8080",
        "c.example",
        "xn--bcher-kva.example",
    }


def test_scope_is_hosts_and_allow_but_not_deny() -> None:
    scope = Options.parse(
        {"url": "http://localhost/", "allow": "/docs/", "deny": r"\.pdf$"}
    ).scope
    assert scope.covers("http://localhost/docs/x")
    assert scope.covers("HTTPS://LOCALHOST/docs/x")
    assert not scope.covers("http://localhost/")
    assert not scope.covers("http://localhost/docs/x.pdf")
    assert not scope.covers("http://localhost:81/docs/x")
    assert not scope.covers("http://other.example/docs/x")
    assert not scope.covers("http://[bad/docs/x")


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("example.com", "did you mean https://example.com/ ?"),
        ("example.com/docs", "did you mean https://example.com/docs ?"),
        ("//example.com/docs", "did you mean https://example.com/docs ?"),
        ("example.com:8080/x", "did you mean https://example.com:8080/x ?"),
        ("localhost:8000", "did you mean http://localhost:8000/ ?"),
        ("127.0.0.1:8000/", "did you mean http://127.0.0.1:8000/ ?"),
        ("/docs/", "did you mean https://docs/ ?"),
        ("!", "give a URL such as https://example.com/"),
        ("ftp://example.com/", "https:// or http://"),
        ("file:///etc/passwd", "https:// or http://"),
        ("mailto:me@example.com", "https:// or http://"),
        ("http://", "such as https://example.com/"),
        ("http:///x", "such as https://example.com/"),
        ("http://[bad", "such as https://example.com/"),
        ("http://example.com:99999/", "such as https://example.com/"),
        ("http://../", "such as https://example.com/"),
        ("", "leave it out"),
        ("  ", "leave it out"),
        ("http://no-such-host.invalid/", "check its spelling"),
        ("http://localhost/ example.com", "did you mean https://example.com/ ?"),
    ],
)
def test_a_bad_url_is_refused_with_a_remedy(url: str, remedy: str) -> None:
    message = refusal(url=url)
    assert "-a url" in message
    assert remedy in message


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "", "\u0663", "1e3"])
def test_bad_max_pages_is_refused(text: str) -> None:
    assert f"-a max_pages={text} is not" in refusal(max_pages=text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90), ("1.5m", 90), ("12h", 43_200), ("1d", 86_400), ("2w", 1_209_600),
    ],
)  # fmt: skip
def test_pages_come_again_after_a_time(text: str, seconds: float) -> None:
    options = Options.parse({"url": "http://127.0.0.1/", "revisit": text})
    assert options.revisit == seconds


@pytest.mark.parametrize("text", ["", "1", "0d", "-1d", "1 d", "1y", "daily", "1e3s"])
def test_a_bad_revisit_is_refused(text: str) -> None:
    assert f"-a revisit={text} is no time" in refusal(revisit=text)


@pytest.mark.parametrize("name", ["allow", "deny"])
def test_a_bad_regular_expression_is_refused(name: str) -> None:
    message = refusal(**{name: "(docs"})
    assert f"-a {name}=(docs is not a regular expression (missing )" in message


@pytest.mark.parametrize(
    "hosts", ["https://a.example/", "a.example/x", "a b", "me@a.example", "a.example:x"]
)
def test_bad_hosts_are_refused(hosts: str) -> None:
    assert "such as a.example,b.example:8080" in refusal(hosts=f"b.example,{hosts}")


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    message = refusal(maxpages="3")
    assert "no option -a maxpages" in message
    assert "-a hosts, -a allow, -a deny, -a max_pages, -a retry_failed" in message
