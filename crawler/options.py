"""The ``-a NAME=VALUE`` options of the ``site`` spider."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError
from w3lib.url import safe_url_string

from crawler.hosts import can_resolve, host_of, is_loopback
from crawler.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Options"]

_KNOWN = ("url", "hosts", "allow", "deny", "max_pages", "retry_failed", "revisit")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)


@dataclass(frozen=True)
class Options:
    """The user's options, checked.

    Without ``url`` there are no start URLs: the crawl is of the sample site.
    """

    start_urls: tuple[str, ...]
    scope: Scope
    max_pages: int | None
    revisit: float | None
    """Seconds after which each page comes again; None: never."""
    retry_failed: str | None = None
    """Checked by the plugin, which has the setting."""

    @classmethod
    def parse(cls, arguments: Mapping[str, str]) -> Options:
        """Check each of the spider's arguments; look up the start hosts.

        Raises :exc:`scrapy.exceptions.UsageError` with one line that names the option
        and the remedy. Writes nothing.
        """
        for name in arguments:
            if name not in _KNOWN:
                raise _error(f"there is no option -a {name}: there are {_known()}")
        start_urls = _start_urls(arguments["url"]) if "url" in arguments else ()
        hosts = {host for url in start_urls if (host := host_of(url)) is not None}
        if "hosts" in arguments:
            hosts |= _hosts(arguments["hosts"])
        options = cls(
            start_urls=start_urls,
            scope=Scope(
                hosts=frozenset(hosts),
                allow=_regex("allow", arguments),
                deny=_regex("deny", arguments),
            ),
            max_pages=_max_pages(arguments),
            revisit=_revisit(arguments),
            retry_failed=arguments.get("retry_failed"),
        )
        # Last, because it takes time: a typing error above should not wait for it.
        for url in start_urls:
            if not can_resolve(url):
                raise _error(
                    f"-a url={url}: the host {host_of(url)} is unknown (no address "
                    "found for it): check its spelling and your network"
                )
        return options

    def starting_at(self, url: str) -> Options:
        """Return these options with *url* as the start, and its host in scope."""
        hosts = {host} if (host := host_of(url)) is not None else set()
        scope = replace(self.scope, hosts=self.scope.hosts | hosts)
        return replace(self, start_urls=(url,), scope=scope)


def _error(message: str) -> UsageError:
    return UsageError(message, print_help=False)


def _known() -> str:
    return ", ".join(f"-a {name}" for name in _KNOWN)


def _start_urls(text: str) -> tuple[str, ...]:
    urls = tuple(_start_url(url) for url in text.split())
    if not urls:
        raise _error(
            "-a url is empty: give a URL, such as -a url=https://example.com/, or "
            "leave it out to crawl the sample site"
        )
    return tuple(dict.fromkeys(urls))  # duplicates are dropped


def _start_url(text: str) -> str:
    scheme = _SCHEME.match(text)
    # In "example.com:8080/" and "localhost:8080" the colon ends a host, not a scheme.
    if scheme is None or re.match(r"\d+(/|$)", text[scheme.end() :]):
        raise _error(f"-a url={text} has no scheme: {_suggestion(text)}")
    if scheme[1].lower() not in ("http", "https"):
        raise _error(
            f"-a url={text}: the scheme {scheme[1]}: cannot be crawled: give a URL "
            "that begins with https:// or http://"
        )
    try:
        url = safe_url_string(text)
    except ValueError:
        url = ""
    if host_of(url) is None:
        raise _error(
            f"-a url={text} has no host, or one that cannot exist: give a URL such as "
            "https://example.com/"
        )
    return url


def _suggestion(text: str) -> str:
    guess = f"https://{text.lstrip('/')}"
    host = host_of(guess)
    if host is None:
        return "give a URL such as https://example.com/"
    if is_loopback(host):
        guess = guess.replace("https", "http", 1)
    if guess.count("/") == 2:  # only those of "://"
        guess += "/"
    return f"did you mean {guess} ?"


def _hosts(text: str) -> set[str]:
    hosts = set()
    for name in filter(None, map(str.strip, text.split(","))):
        host = None
        if not re.search(r"[/?#@\s]", name):
            # The default ports of both schemes are not part of the name.
            scheme = "https" if name.endswith(":443") else "http"
            with contextlib.suppress(ValueError):
                host = host_of(safe_url_string(f"{scheme}://{name}/"))
        if host is None:
            raise _error(
                f"-a hosts={text}: {name!r} is not a host name: give names without "
                "scheme or path, separated by commas, such as a.example,b.example:8080"
            )
        hosts.add(host)
    return hosts


def _regex(name: str, arguments: Mapping[str, str]) -> re.Pattern[str] | None:
    if name not in arguments:
        return None
    try:
        return re.compile(arguments[name])
    except re.error as error:
        raise _error(
            f"-a {name}={arguments[name]} is not a regular expression ({error}): give "
            f"one that is searched for in the absolute URL, such as -a {name}=/docs/"
        ) from None


def _max_pages(arguments: Mapping[str, str]) -> int | None:
    if "max_pages" not in arguments:
        return None
    text = arguments["max_pages"]
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise _error(
            f"-a max_pages={text} is not a number of pages: give a whole number of at "
            "least 1, or leave it out to crawl everything"
        )
    return int(text)


def _revisit(arguments: Mapping[str, str]) -> float | None:
    text = arguments.get("revisit")
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw])", text)
    if found is None or float(found[1]) == 0:
        raise _error(
            f"-a revisit={text} is no time: give a number and its unit, such as 90s, "
            "30m, 12h, 1d or 2w"
        )
    return float(found[1]) * _UNITS[found[2]]
