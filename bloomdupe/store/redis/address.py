"""Address: the URL that names a filter on Redis."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from bloomdupe.errors import SettingError

__all__ = ["Address"]

NAME = re.compile(r"[^{}\x00-\x1f\x7f\ud800-\udfff]+")
"""A name is put between the braces of a hash tag."""

EXAMPLE = "redis://host:6379/0#name"
BY_SENTINEL = "redis+sentinel"
SENTINEL_PORT = 26_379
SERVICE = re.compile(r"/([^/]+)(/\d*)?")
"""The path of a URL with sentinels: the service, and the database."""
URL = re.compile(
    r"([\w+]+)://(?:([^/?#]*)@)?([^/?#@]*)([^?#]*)(\?[^#]*)?(?:#(.*))?", re.DOTALL
)
"""Scheme, user and password, hosts, path, options, and the name of the filter."""


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
                f"{found.shown}: the URL must end in the name of the crawl or filter,"
                f" such as {EXAMPLE}; the name must have no braces"
            )
        return found

    @classmethod
    def of_server(cls, url: str) -> Address:
        """Take a URL apart that need not name a filter."""
        try:
            found = URL.fullmatch(url)
            if found is None:
                raise ValueError(url)
            scheme, login, hosts, path, options, name = found.groups("")
            # Where a password has a slash or a hash, its beginning looks like a host.
            if ("@" in path and scheme != "unix") or {"@", "#"} <= set(name):
                raise ValueError(hosts)
            each = hosts.split(",") if scheme == BY_SENTINEL else [hosts]
            places = [urlsplit(f"//{host}") for host in each]
            sentinels = tuple(
                (place.hostname or "", place.port or SENTINEL_PORT) for place in places
            )
        except ValueError as error:
            # Both the text of the error and the URL may contain the password.
            raise SettingError(
                f"this URL of a Redis cannot be read ({type(error).__name__}); expected"
                f" a URL such as {EXAMPLE}. In a password, / ? # and @ are %2F %3F %23"
                " and %40"
            ) from None
        user, at = login.partition(":")[0], "@" if login else ""
        shown = f"{scheme}://{user}{at if user else ''}{hosts}{path}"
        shown += f"#{name}" if name else ""
        if "decode_responses" in options:
            raise SettingError(
                f"{shown}: decode_responses: blocks are bytes; leave it out"
            )
        if scheme != BY_SENTINEL:
            return cls(url.partition("#")[0], unquote(name), shown)
        service = SERVICE.fullmatch(path)
        if service is None or not all(host for host, _ in sentinels):
            raise SettingError(
                f"{shown}: expected hosts of sentinels, the service, and the"
                f" database, such as {BY_SENTINEL}://host:26379,host2/service/0#name"
            )
        # This host is not used.
        server = f"redis://{login}{at}sentinel{service[2] or ''}{options}"
        return cls(server, unquote(name), shown, sentinels, service[1])

    @property
    def head(self) -> str:
        """Name of the Redis key that describes the filter; its other keys extend it.

        The name of the filter is the hash tag, so that a Redis Cluster keeps
        all of it on one node.
        """
        return f"bloomdupe:{{{self.name}}}"
