"""Address: the URL that names a filter on Redis."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from bloomdupe.errors import SettingError

__all__ = ["Address"]

NAME = re.compile(r"[^{}\x00-\x1f\x7f]+")
"""A name is put between the braces of a hash tag."""

EXAMPLE = "redis://host:6379/0#name"


class Address(NamedTuple):
    """A server, and the name of a filter on it.

    ``redis://user:password@host:6379/0#name`` is database 0 of that server and the
    filter ``name``; ``rediss://`` is the same with TLS, and
    ``unix:///run/redis.sock?db=0#name`` goes through a socket of the file system. The
    documentation of redis-py's ``Redis.from_url`` lists the options that may follow the
    question mark.
    """

    server: str
    """The URL without the name, password included: for redis-py."""
    name: str
    shown: str
    """The URL without password and options: for messages."""

    @classmethod
    def of(cls, url: str) -> Address:
        """Take a URL apart, or raise :class:`~bloomdupe.errors.SettingError`."""
        found = cls._read(url, EXAMPLE)
        if not NAME.fullmatch(found.name):
            raise SettingError(
                f"{found.shown}: the URL must end in the name of the filter, such as"
                f" {EXAMPLE}; the name must have no braces"
            )
        return found

    @classmethod
    def of_server(cls, url: str) -> Address:
        """Take a URL apart that names a server, and no filter on it."""
        found = cls._read(url, EXAMPLE.partition("#")[0])
        if found.name:
            raise SettingError(
                f"{found.shown}: the URL must end before the #; what stands behind it"
                " would name a filter"
            )
        return found._replace(shown=found.shown.removesuffix("#"))

    @classmethod
    def _read(cls, url: str, example: str) -> Address:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            # Both the text of the error and the URL may contain the password.
            raise SettingError(
                f"this URL of a Redis cannot be read ({type(error).__name__}); expected"
                f" one such as {example}"
            ) from None
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        user = f"{parts.username}@" if parts.username else ""
        place = user + host + ("" if port is None else f":{port}")
        shown = f"{parts.scheme}://{place}{parts.path}#{parts.fragment}"
        if "decode_responses" in parts.query:
            raise SettingError(
                f"{shown}: decode_responses: pages are bytes; leave it out"
            )
        return cls(url.partition("#")[0], unquote(parts.fragment), shown)

    @property
    def head(self) -> str:
        """Name of the Redis key that describes the filter; its other keys extend it.

        The name of the filter is the hash tag, so that a Redis Cluster keeps all of the
        filter on one node.
        """
        return f"bloomdupe:{{{self.name}}}"
