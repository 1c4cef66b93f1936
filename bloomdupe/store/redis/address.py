"""Address: the URL that names a filter on Redis."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from bloomdupe.errors import SettingError

__all__ = ["Address"]

NAME = re.compile(r"[^{}\x00-\x1f\x7f]+")
"""A name is put between the braces of a hash tag."""

EXAMPLE = "redis://host:6379/0#name"
BY_SENTINEL = "redis+sentinel"
SENTINEL_PORT = 26_379
SERVICE = re.compile(r"/([^/]+)(/\d*)?")
"""The path of a URL with sentinels: the service, and the database."""
SENTINELS = re.compile(r"(redis\+sentinel://(?:[^/?#]*@)?)([^/?#@]*)(.*)", re.DOTALL)
"""Such a URL: before its hosts, these, and behind them."""


class Address(NamedTuple):
    """A server, and the name of a filter on it.

    ``redis://user:password@host:6379/0#name`` is database 0 of that server and the
    filter ``name``; ``rediss://`` is the same with TLS, and
    ``unix:///run/redis.sock?db=0#name`` goes through a socket of the file system.
    ``redis+sentinel://user:password@host:26379,host2:26379/service/0#name`` asks the
    sentinels on these hosts for the server of a service. The documentation of
    redis-py's ``Redis.from_url`` lists the options that may follow the question mark.
    """

    server: str
    """The URL without the name, password included: for redis-py."""
    name: str
    shown: str
    """The URL without password and options: for messages."""
    sentinels: tuple[tuple[str, int], ...] = ()
    """Hosts and ports of the sentinels; none: the URL names the server itself."""
    service: str = ""
    """The service that the sentinels know."""

    @classmethod
    def of(cls, url: str) -> Address:
        """Take a URL apart, or raise :class:`~bloomdupe.errors.SettingError`."""
        found = cls.of_server(url)
        if not NAME.fullmatch(found.name):
            raise SettingError(
                f"{found.shown}: the URL must end in the name of the filter, such as"
                f" {EXAMPLE}; the name must have no braces"
            )
        return found

    @classmethod
    def of_server(cls, url: str) -> Address:
        """Take a URL apart that need not name a filter."""
        try:
            parts, hosts = _split(url)
            places = _places_of(parts, hosts)
        except ValueError as error:
            # Both the text of the error and the URL may contain the password.
            raise SettingError(
                f"this URL of a Redis cannot be read ({type(error).__name__}); expected"
                f" a URL such as {EXAMPLE}. In a password, / ? # and @ are %2F %3F %23"
                " and %40"
            ) from None
        user = f"{parts.username}@" if parts.username else ""
        shown = f"{parts.scheme}://{user}{hosts}{parts.path}#{parts.fragment}"
        shown = shown.removesuffix("#")
        if "decode_responses" in parts.query:
            raise SettingError(
                f"{shown}: decode_responses: blocks are bytes; leave it out"
            )
        found = cls(url.partition("#")[0], unquote(parts.fragment), shown)
        return found._at(parts, places) if parts.scheme == BY_SENTINEL else found

    def _at(self, parts: SplitResult, places: list[tuple[str, int | None]]) -> Address:
        """Return the address of the server that sentinels know."""
        path = SERVICE.fullmatch(parts.path)
        if path is None or not all(host for host, _ in places):
            raise SettingError(
                f"{self.shown}: expected hosts of sentinels, the service, and the"
                f" database, such as {BY_SENTINEL}://host:26379,host2/service/0#name"
            )
        login, at, _ = parts.netloc.rpartition("@")
        # This host is not used.
        server = f"redis://{login}{at}sentinel{path[2] or ''}?{parts.query}"
        sentinels = tuple((host, port or SENTINEL_PORT) for host, port in places)
        return self._replace(server=server, sentinels=sentinels, service=path[1])

    @property
    def head(self) -> str:
        """Name of the Redis key that describes the filter; its other keys extend it.

        The name of the filter is the hash tag, so that a Redis Cluster keeps
        all of it on one node.
        """
        return f"bloomdupe:{{{self.name}}}"


def _split(url: str) -> tuple[SplitResult, str]:
    """Take a URL apart; return its hosts, too.

    Recent versions of Python refuse a list of hosts with an IPv6 address in it.
    """
    found = SENTINELS.fullmatch(url)
    if found is None:
        parts = urlsplit(url)
        return parts, parts.netloc.rpartition("@")[2]
    return urlsplit(f"{found[1]}sentinel{found[3]}"), found[2]


def _places_of(parts: SplitResult, hosts: str) -> list[tuple[str, int | None]]:
    """Return host and port of each server, or raise ``ValueError``.

    Where a password has a slash or a hash, its beginning may look like host and port.
    """
    in_path = "@" in parts.path and parts.scheme != "unix"
    if in_path or {"@", "#"} <= set(parts.fragment):
        raise ValueError(parts)
    each = hosts.split(",") if parts.scheme == BY_SENTINEL else [hosts]
    found = [urlsplit(f"//{host}") for host in each]
    return [(place.hostname or "", place.port) for place in found]
