"""Lookup: finds the pending requests that have given fingerprints.

The store knows requests by slot and order, not by fingerprint, so the search reads all
of them. A request without any of the wanted hosts costs 1 µs, any other request about
10.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bloomdupe.errors import UnserializableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy import Request

    from bloomdupe.frontier.waiting import Waiting
    from bloomdupe.jobs.project import Project

__all__ = ["find"]

MOST_HOSTS = 100
"""Hosts in a single search expression, at most."""


def find(
    waiting: Iterable[Waiting], wanted: Collection[Request], project: Project
) -> Iterator[tuple[bytes, Waiting]]:
    """Yield each pending request that matches a wanted request, and its key.

    A request that cannot be read is left out: it stays in the store.
    """
    keys = {project.key_of(request)[0] for request in wanted}
    hosts = {urlsplit(request.url).hostname or "" for request in wanted}
    # A usual beginning, with www., is stored as one character.
    texts = {re.escape(host.removeprefix("www.").encode()) for host in hosts}
    everything = len(texts) > MOST_HOSTS or b"" in texts
    host = rb"(?<![\w.-])(?:www\.)?(?:%b)(?![\w-])" % b"|".join(texts)
    may_be = re.compile(b"" if everything else host, re.IGNORECASE).search
    for one in waiting:
        if may_be(one.payload):
            try:
                key, _ = project.key_of(project.request_of(one.payload))
            except UnserializableError:
                continue
            if key in keys:
                yield key, one
